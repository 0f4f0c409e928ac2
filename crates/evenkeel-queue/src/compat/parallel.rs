//! [`Parallel`].

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// Runs numbered pieces of work with bounded parallelism. client-go's `ParallelizeUntil`.
///
/// [`run`](Self::run) uses threads and blocks; [`run_async`](Self::run_async) runs within one future.
///
/// - Each piece from 0 on runs exactly once, unless the work is cancelled. Pieces start in order.
/// - Both return the number of pieces run: fewer than all if and only if the work was cancelled.
/// - The [cancellation predicate](Self::until) is called before each piece. It does not interrupt a running piece.
/// - There are never more workers than pieces, and always at least one.
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
/// use evenkeel_queue::compat::Parallel;
///
/// let (sum, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
/// let done = Parallel::new(4).chunk(16).until(&|| stop.load(Ordering::Relaxed)).run(100, |piece| {
///     sum.fetch_add(piece, Ordering::Relaxed);
/// });
/// assert_eq!((done, sum.into_inner()), (100, 4950));
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct Parallel<'a> {
    workers: usize,
    chunk: usize,
    off: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Parallel<'a> {
    /// Returns a runner with at most so many pieces at a time. Zero counts as one.
    pub const fn new(workers: usize) -> Self {
        Parallel { workers, chunk: 1, off: None }
    }

    /// Assigns pieces to workers in chunks, for pieces that cost less than their assignment. Zero counts as one.
    pub const fn chunk(mut self, pieces: usize) -> Self {
        self.chunk = pieces;
        self
    }

    /// Sets the cancellation predicate: no piece starts once it returns true. All threads call it, so it should be quick.
    pub const fn until(mut self, cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.off = Some(cancelled);
        self
    }

    /// Runs the pieces on threads and blocks until they end. Returns the number of pieces run.
    ///
    /// The calling thread is one of the workers, so one worker needs no other thread. If the system refuses a thread, fewer threads
    /// share the work.
    ///
    /// # Panics
    ///
    /// If a piece panics: no further piece starts, running pieces end, and the panic resumes on the calling thread.
    pub fn run(self, pieces: usize, piece: impl Fn(usize) + Sync) -> usize {
        self.run_on_threads(pieces, &piece)
    }

    fn run_on_threads(self, pieces: usize, piece: &(dyn Fn(usize) + Sync)) -> usize {
        let chunk = self.chunk.max(1);
        let chunks = pieces.div_ceil(chunk);
        if chunks == 0 {
            return 0;
        }
        let (next, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let _on_panic = SetOnPanic(&panicked);
            let mut done = 0;
            loop {
                let begin = next.fetch_add(1, Ordering::Relaxed);
                if begin >= chunks {
                    return done;
                }
                let begin = begin * chunk;
                for index in begin..begin.saturating_add(chunk).min(pieces) {
                    if panicked.load(Ordering::Relaxed) || self.is_off() {
                        return done;
                    }
                    piece(index);
                    done += 1;
                }
            }
        };
        thread::scope(|scope| {
            let helpers = self.workers.max(1).min(chunks) - 1;
            let helpers: Vec<_> =
                (0..helpers).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
            let mut done = work();
            let mut payload: Option<Box<dyn Any + Send>> = None;
            for helper in helpers {
                match helper.join() {
                    Ok(by_helper) => done += by_helper,
                    Err(panic) => payload = payload.or(Some(panic)),
                }
            }
            match payload {
                Some(payload) => resume_unwind(payload),
                None => done,
            }
        })
    }

    /// Runs the pieces as futures, at most as many at a time as there are workers. Returns the number of pieces run.
    ///
    /// Nothing is spawned: the pieces run in the task that polls the future, so they may borrow. Dropping the future drops the
    /// running pieces. A piece is polled only when woken, and the future yields to other tasks now and then. Chunks have no effect.
    pub async fn run_async<F, P>(self, pieces: usize, piece: F) -> usize
    where
        F: Fn(usize) -> P,
        P: Future<Output = ()>,
    {
        let most = self.workers.max(1).min(pieces);
        let mut tasks =
            TaskSet { slots: Vec::with_capacity(most), free: Vec::new(), wakes: Arc::new(WakeQueue::default()) };
        let (mut begun, mut done) = (0, 0);
        poll_fn(|cx| {
            tasks.wakes.set_task(cx.waker());
            for _ in 0..POLLS_IN_A_ROW {
                // Alternates between starting a piece and polling a woken one.
                let starts = begun < pieces && begun - done < most && !self.is_off();
                if starts {
                    let slot = tasks.insert(piece(begun));
                    begun += 1;
                    done += usize::from(tasks.poll(slot));
                }
                let woken = tasks.wakes.pop();
                if let Some(slot) = woken {
                    done += usize::from(tasks.poll(slot));
                }
                if !starts && woken.is_none() {
                    return if begun == done { Poll::Ready(done) } else { Poll::Pending };
                }
            }
            // Yields, for pieces that never wait.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    fn is_off(&self) -> bool {
        self.off.is_some_and(|off| off())
    }
}

impl fmt::Debug for Parallel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parallel").field("workers", &self.workers).field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

/// Polls of pieces before the future yields.
const POLLS_IN_A_ROW: usize = 64;

struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The running pieces.
struct TaskSet<P> {
    slots: Vec<TaskSlot<P>>,
    free: Vec<usize>,
    wakes: Arc<WakeQueue>,
}

struct TaskSlot<P> {
    /// Boxed once for all pieces that use this slot.
    piece: Pin<Box<Option<P>>>,
    task_waker: Arc<TaskWaker>,
    waker: Waker,
}

impl<P: Future<Output = ()>> TaskSet<P> {
    /// Assigns a slot to the piece.
    fn insert(&mut self, piece: P) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot].piece.set(Some(piece));
            return slot;
        }
        let slot = self.slots.len();
        let task_waker = Arc::new(TaskWaker { slot, woken: AtomicBool::new(false), wakes: Arc::clone(&self.wakes) });
        let waker = Waker::from(Arc::clone(&task_waker));
        self.slots.push(TaskSlot { piece: Box::pin(Some(piece)), task_waker, waker });
        slot
    }

    /// Polls the piece of a slot. Returns true if it ended and the slot is free.
    fn poll(&mut self, slot: usize) -> bool {
        let TaskSlot { piece, task_waker, waker } = &mut self.slots[slot];
        // Before the poll, so that a wake during the poll is not lost.
        task_waker.woken.swap(false, Ordering::AcqRel);
        // A waker may be woken after its piece ended.
        let Some(running) = piece.as_mut().as_pin_mut() else { return false };
        let done = running.poll(&mut Context::from_waker(waker)).is_ready();
        if done {
            piece.set(None);
            self.free.push(slot);
        }
        done
    }
}

/// The slots of woken pieces.
struct WakeQueue {
    state: Mutex<WakeState>,
}

struct WakeState {
    /// Woken slots, each once.
    woken: VecDeque<usize>,
    /// The task that polls the future.
    task: Waker,
}

impl Default for WakeQueue {
    fn default() -> Self {
        WakeQueue { state: Mutex::new(WakeState { woken: VecDeque::new(), task: Waker::noop().clone() }) }
    }
}

impl WakeQueue {
    fn set_task(&self, task: &Waker) {
        self.state().task.clone_from(task);
    }

    fn pop(&self) -> Option<usize> {
        self.state().woken.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, WakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of a slot.
struct TaskWaker {
    slot: usize,
    /// Whether the slot is in the queue, or about to be.
    woken: AtomicBool,
    wakes: Arc<WakeQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut state = self.wakes.state();
            state.woken.push_back(self.slot);
            state.task.clone()
        };
        task.wake();
    }
}

#[cfg(test)]
mod tests;
