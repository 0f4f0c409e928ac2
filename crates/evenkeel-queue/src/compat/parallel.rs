//! [`Parallel`]: the pieces of a piece of work, several at a time.

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

/// Does numbered pieces of work, several at a time, and returns when no more is done. client-go's `ParallelizeUntil`.
///
/// [`run`](Self::run) does them on threads and blocks; [`run_async`](Self::run_async) does them within one future.
///
/// - Each piece from 0 on is done exactly once, unless the work is called off. They are begun in order.
/// - Both return how many pieces were done: fewer than there are if and only if the work was called off.
/// - The question whether it is [called off](Self::until) is asked before each piece. A piece that has begun is not
///   interrupted by it.
/// - There are never more workers than there is work for, and always at least one.
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
    /// At most so many pieces at a time. Zero counts as one.
    pub const fn new(workers: usize) -> Self {
        Parallel { workers, chunk: 1, off: None }
    }

    /// Hands out so many pieces at once, one after the other to one worker. For pieces so small that handing them out would
    /// cost more than doing them. Zero counts as one.
    pub const fn chunk(mut self, pieces: usize) -> Self {
        self.chunk = pieces;
        self
    }

    /// Begins no more pieces once this answers true. The threads ask it, so it should be quick.
    pub const fn until(mut self, called_off: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.off = Some(called_off);
        self
    }

    /// Does the pieces on threads and blocks until they are done. Returns how many were.
    ///
    /// The calling thread is one of the workers, so with one worker there is no other thread. Where the system has no more
    /// threads to give, fewer do the work.
    ///
    /// # Panics
    ///
    /// If a piece panics. No further piece is begun, those that have begun are finished, and then the panic goes on here.
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

    /// Does the pieces as futures, at most as many at a time as there are workers, and waits until they are done. Returns
    /// how many were.
    ///
    /// Nothing is spawned: all of it happens in the task that polls the future, so pieces may borrow. Dropping the future
    /// drops the pieces that have begun. A piece is only polled when it has been woken, and who has many pieces that are
    /// ready at once still lets other tasks have their turn. Chunks make no difference here.
    pub async fn run_async<F, P>(self, pieces: usize, piece: F) -> usize
    where
        F: Fn(usize) -> P,
        P: Future<Output = ()>,
    {
        let most = self.workers.max(1).min(pieces);
        let mut tasks =
            TaskSet { places: Vec::with_capacity(most), free: Vec::new(), bells: Arc::new(WakeQueue::default()) };
        let (mut begun, mut done) = (0, 0);
        poll_fn(|cx| {
            tasks.bells.attend(cx.waker());
            for _ in 0..ROUNDS_IN_A_ROW {
                // One that begins and one that goes on, in turn: neither keeps the other waiting.
                let begins = begun < pieces && begun - done < most && !self.is_off();
                if begins {
                    let place = tasks.seat(piece(begun));
                    begun += 1;
                    done += usize::from(tasks.poll(place));
                }
                let rung = tasks.bells.answer();
                if let Some(place) = rung {
                    done += usize::from(tasks.poll(place));
                }
                if !begins && rung.is_none() {
                    return if begun == done { Poll::Ready(done) } else { Poll::Pending };
                }
            }
            // Pieces that never wait would otherwise keep the task to themselves.
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

/// How often a future begins or goes on with a piece before it lets others have their turn.
const ROUNDS_IN_A_ROW: usize = 64;

struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The pieces that have begun and are not done.
struct TaskSet<P> {
    places: Vec<TaskSlot<P>>,
    free: Vec<usize>,
    bells: Arc<WakeQueue>,
}

struct TaskSlot<P> {
    /// Boxed once for all the pieces that will have this place.
    piece: Pin<Box<Option<P>>>,
    bell: Arc<TaskWaker>,
    waker: Waker,
}

impl<P: Future<Output = ()>> TaskSet<P> {
    /// Gives the piece a place.
    fn seat(&mut self, piece: P) -> usize {
        if let Some(place) = self.free.pop() {
            self.places[place].piece.set(Some(piece));
            return place;
        }
        let place = self.places.len();
        let bell = Arc::new(TaskWaker { place, rung: AtomicBool::new(false), bells: Arc::clone(&self.bells) });
        let waker = Waker::from(Arc::clone(&bell));
        self.places.push(TaskSlot { piece: Box::pin(Some(piece)), bell, waker });
        place
    }

    /// Goes on with the piece of this place. True if that was the end of it, and the place is free.
    fn poll(&mut self, place: usize) -> bool {
        let TaskSlot { piece, bell, waker } = &mut self.places[place];
        // Before the piece looks at anything, so that whatever happens from now on rings again.
        bell.rung.swap(false, Ordering::AcqRel);
        // A bell may ring for a piece that is done.
        let Some(running) = piece.as_mut().as_pin_mut() else { return false };
        let done = running.poll(&mut Context::from_waker(waker)).is_ready();
        if done {
            piece.set(None);
            self.free.push(place);
        }
        done
    }
}

/// Which pieces have been woken.
struct WakeQueue {
    state: Mutex<WakeState>,
}

struct WakeState {
    /// Places whose bell has rung, each once.
    rung: VecDeque<usize>,
    /// The task that answers.
    task: Waker,
}

impl Default for WakeQueue {
    fn default() -> Self {
        WakeQueue { state: Mutex::new(WakeState { rung: VecDeque::new(), task: Waker::noop().clone() }) }
    }
}

impl WakeQueue {
    fn attend(&self, task: &Waker) {
        self.state().task.clone_from(task);
    }

    fn answer(&self) -> Option<usize> {
        self.state().rung.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, WakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes the piece at a place.
struct TaskWaker {
    place: usize,
    /// Whether the place is among those that have rung, or about to be.
    rung: AtomicBool,
    bells: Arc<WakeQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut state = self.bells.state();
            state.rung.push_back(self.place);
            state.task.clone()
        };
        task.wake();
    }
}

#[cfg(test)]
mod tests;
