//! The state that all handles of a queue share: the machine behind a lock, and the waiting workers.

mod plain_path;

use std::any::Any;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use evenkeel_base::Observers;
use rapidhash::quality::RandomState;

use crate::Key;
use crate::builder::DEFAULT_BACKOFF;
use crate::clock::Clock;
use crate::inbox::{DeferredCall, Inbox};
use crate::limiter::RateLimiter;
use crate::machine::time::Time;
use crate::machine::{Failed, GroupId, MachineSettings, QueueMachine, TakeResult, TakenKey};
use crate::metrics::{PublishedMetrics, QueueMetrics};
use crate::observer::Observer;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, lock};
use crate::waiters::{WaiterId, Waiters, Wake};

pub(crate) struct Shared<K> {
    pub(crate) name: Option<Box<str>>,
    state: Padded<Mutex<QueueState<K>>>,
    inbox: Inbox<K>,
    /// Set when a key is ready for the spinning thread, or the queue is over.
    calls_spinner: AtomicBool,
    /// Whether the inbox is ever open: no call of the queue needs the time, and adds call no function of the user.
    is_plain: bool,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    pub(crate) clock: Box<dyn Clock>,
    begun: Instant,
    hasher: RandomState,
    pub(crate) metrics: Option<QueueMetrics>,
    pub(crate) observers: Arc<Observers<dyn Observer<K>>>,
}

/// Aligned as [`Inbox`]: threads that write here do not disturb those that read the other fields.
#[repr(align(128))]
struct Padded<T>(T);

pub(crate) struct QueueState<K> {
    pub(crate) machine: QueueMachine<K>,
    waiters: Waiters,
    drainers: Waiters,
    pub(crate) published: PublishedMetrics,
    /// The latest time passed to the machine.
    latest: Time,
    is_inbox_open: bool,
    /// Whether a blocking worker spins. It takes the next key, so that no waiter is called for it.
    is_spinning: bool,
    /// Calls taken from the inbox. Empty between calls; its memory is reused.
    deferred: Vec<DeferredCall<K>>,
    /// Deferred calls that panicked since the last report.
    panicked: usize,
}

impl<K: Key> QueueState<K> {
    /// Returns whether the inbox may stay open, and there is no thread to wake and nothing to drop or to report.
    ///
    /// Only plain queues open the inbox, and they have no metrics.
    #[inline]
    fn is_settled(&self) -> bool {
        self.is_inbox_open
            && self.machine.is_running()
            && !self.machine.needs_time()
            && !self.machine.has_removed()
            && self.waiters.is_empty()
            && self.drainers.is_empty()
            && !self.is_spinning
            && self.panicked == 0
    }
}

/// The result of [`Shared::poll_next`].
pub(crate) enum NextPoll<K> {
    Got(TakenKey<K>),
    /// The queue is shut down and empty.
    Over,
    /// The waiter is woken when a key is ready. With a time, it also polls again at that time.
    Wait(Option<Time>),
    /// Poll again; other threads had the lock meanwhile.
    Busy,
}

/// The wait after a failure.
pub(crate) struct BackoffWait {
    pub(crate) failures: u32,
    pub(crate) wait: Duration,
    /// The panic of the limiter, if it panicked; the wait is then the default backoff.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// Polls of a busy machine before the caller yields its thread.
const BUSY_TURNS: usize = 16;

impl<K: Key> Shared<K> {
    pub(crate) fn new(
        name: Option<Box<str>>,
        settings: MachineSettings<K>,
        limiter: Box<dyn RateLimiter<K>>,
        clock: Box<dyn Clock>,
        metrics: Option<QueueMetrics>,
    ) -> Self {
        let hasher = RandomState::default();
        let is_plain = metrics.is_none() && settings.tenant.is_none() && settings.ready_order.is_none();
        let mut machine = QueueMachine::new(settings, hasher);
        if metrics.is_some() {
            machine.note_depths();
        }
        let state = QueueState {
            machine,
            waiters: Waiters::default(),
            drainers: Waiters::default(),
            published: PublishedMetrics::default(),
            latest: Time::ZERO,
            is_inbox_open: false,
            is_spinning: false,
            deferred: Vec::new(),
            panicked: 0,
        };
        let begun = clock.now();
        let (state, observers) = (Padded(Mutex::new(state)), Arc::new(Observers::new()));
        let (inbox, calls_spinner) = (Inbox::new(), AtomicBool::new(false));
        Shared { name, state, inbox, calls_spinner, is_plain, limiter, clock, begun, hasher, metrics, observers }
    }

    /// Returns the name for logs.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("unnamed")
    }

    pub(crate) fn hash(&self, key: &K) -> u64
    where
        K: Hash,
    {
        self.hasher.hash_one(key)
    }

    /// Runs a function on the state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut QueueState<K>) -> T) -> T {
        self.update(false, |state, _| look(state))
    }

    /// Runs a function on the machine and wakes the waiters that it concerns. If `timed`, the clock is read even if the machine
    /// does not need the time.
    pub(crate) fn change<T>(&self, timed: bool, change: impl FnOnce(&mut QueueMachine<K>, Time) -> T) -> T {
        self.update(timed, |state, now| change(&mut state.machine, now))
    }

    /// Counts a failure and computes its backoff: the limiter's, or the rest of the current one if that continues. The limiter is
    /// called without the lock. Returns `None` if the queue is shutting down, or refuses the key.
    pub(crate) fn record_failure(
        &self,
        key: &K,
        fail: impl FnOnce(&mut QueueMachine<K>, Time) -> Failed,
    ) -> Option<BackoffWait> {
        let (failed, now) =
            self.update(true, |state, now| (state.machine.accepts(key).then(|| fail(&mut state.machine, now)), now));
        let Failed { failures, until } = failed?;
        let (wait, panic) = match until {
            Some(until) => (until.since(now), None),
            None => {
                let when = || self.limiter.when(key, failures, self.instant(now));
                match catch_unwind(AssertUnwindSafe(when)) {
                    Ok(wait) => (wait, None),
                    Err(panic) => (DEFAULT_BACKOFF.wait(failures), Some(panic)),
                }
            }
        };
        Some(BackoffWait { failures, wait, panic })
    }

    /// Takes a key or registers the waiter under `id`, which the caller passes in again at the next poll.
    pub(crate) fn poll_next(&self, id: &mut Option<WaiterId>, waker: &Waker) -> NextPoll<K> {
        for _ in 0..BUSY_TURNS {
            // Dropped after the lock is released.
            let mut old_waker = None;
            let polled = self.update(false, |state, now| match self.take_or_close(state, now) {
                TakeResult::Busy => NextPoll::Busy,
                // Expired failures are removed by the workers that have nothing else to do, a bounded number at a time.
                TakeResult::Empty if state.machine.expire_idle(now) => NextPoll::Busy,
                TakeResult::Empty => {
                    let next = state.machine.next_wake();
                    NextPoll::Wait(state.waiters.wait(id, waker, next, &mut old_waker))
                }
                TakeResult::Over => {
                    old_waker = state.waiters.leave(id);
                    NextPoll::Over
                }
                TakeResult::Taken(taken) => {
                    old_waker = state.waiters.leave(id);
                    NextPoll::Got(taken)
                }
            });
            if !matches!(polled, NextPoll::Busy) {
                return polled;
            }
        }
        NextPoll::Busy
    }

    /// Takes a key if one is ready.
    pub(crate) fn try_take(&self) -> Option<TakenKey<K>> {
        loop {
            match self.change(false, |machine, now| machine.take(now)) {
                TakeResult::Taken(taken) => return Some(taken),
                TakeResult::Empty | TakeResult::Over => return None,
                TakeResult::Busy => {}
            }
        }
    }

    /// Removes a waiter.
    pub(crate) fn leave(&self, id: &mut Option<WaiterId>) {
        if id.is_some() {
            drop(self.update(false, |state, _| state.waiters.leave(id)));
        }
    }

    /// Returns true if the queue is drained, false if it was shut down before; registers the waiter otherwise.
    pub(crate) fn poll_drained(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Option<bool> {
        let mut old = None;
        let mut state = self.lock();
        let drained = match state.machine.is_drained() {
            true => Some(true),
            false => state.machine.is_shut_down().then_some(false),
        };
        match drained {
            Some(_) => old = state.drainers.leave(id),
            None => _ = state.drainers.wait(id, waker, None, &mut old),
        }
        drop(state);
        drop(old);
        drained
    }

    /// Returns true if all runs of a group have ended; registers the waiter otherwise.
    pub(crate) fn poll_runs(&self, group: GroupId, id: &mut Option<WaiterId>, waker: &Waker) -> bool {
        let mut old = None;
        // An update, so that the inbox is closed while there is a waiter: the end of a run is not left in it.
        let ended = self.look(|state| {
            let ended = state.machine.awaited_runs(group) == 0;
            match ended {
                true => old = state.drainers.leave(id),
                false => _ = state.drainers.wait(id, waker, None, &mut old),
            }
            ended
        });
        drop(old);
        ended
    }

    pub(crate) fn leave_drain(&self, id: &mut Option<WaiterId>) {
        if id.is_some() {
            let old = self.lock().drainers.leave(id);
            drop(old);
        }
    }

    /// Converts a machine time to an instant.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.begun.checked_add(time.since_start()).unwrap_or(self.begun)
    }

    /// Returns the current machine time.
    pub(crate) fn now(&self) -> Time {
        Time::from_duration(self.clock.now().saturating_duration_since(self.begun))
    }

    /// Runs a function under the lock; the guard wakes waiters at its end.
    #[inline]
    fn update<T>(&self, timed: bool, change: impl FnOnce(&mut QueueState<K>, Time) -> T) -> T {
        // The clock is read before the lock where possible, to hold the lock for less time.
        let now = (timed || self.metrics.is_some()).then(|| self.now());
        self.enter(self.lock(), now).run(change)
    }

    /// Reads the time, if the machine needs it, and applies deferred calls. Without a time given or needed it is zero.
    ///
    /// Another thread may have passed in a later time than `now` meanwhile: time never decreases for the machine.
    #[inline(always)]
    fn enter<'s>(&'s self, state: MutexGuard<'s, QueueState<K>>, now: Option<Time>) -> UpdateGuard<'s, K> {
        let mut update = UpdateGuard { shared: self, now: Time::ZERO, state: Some(state) };
        if let Some(state) = &mut update.state {
            let now = now.or_else(|| state.machine.needs_time().then(|| self.now()));
            if let Some(now) = now {
                state.latest = state.latest.max(now);
                update.now = state.latest;
            }
            // Calls may come late, after the inbox was closed.
            if self.is_plain && self.inbox.has_calls() {
                self.apply_inbox(state, update.now);
            }
        }
        update
    }

    /// Releases the lock. Most calls of a plain queue concern no other thread.
    #[inline(always)]
    fn settle(&self, state: MutexGuard<'_, QueueState<K>>, now: Time) {
        if !state.is_settled() {
            self.wake_and_release(state, now);
        }
    }

    /// Wakes waiters and drops removed keys, after the lock is released: wakers and destructors are user code.
    #[inline(never)]
    fn wake_and_release(&self, state: MutexGuard<'_, QueueState<K>>, now: Time) {
        let mut wake = Wake::default();
        // Declared after `wake`, and so released before it, should reporting panic.
        let mut state = state;
        if self.is_plain {
            self.open_or_close_inbox(&mut state, now);
        }
        let QueueState { machine, waiters, drainers, published, is_spinning, panicked, .. } = &mut *state;
        if *is_spinning && (machine.len() > 0 || machine.is_over()) {
            self.calls_spinner.store(true, Ordering::Relaxed);
        }
        let has_completed = machine.take_completed();
        if has_completed {
            drainers.call_all(&mut wake);
        }
        if !waiters.is_empty() || !drainers.is_empty() {
            call_waiters(machine, waiters, drainers, usize::from(*is_spinning), &mut wake);
        }
        if let Some(metrics) = &self.metrics {
            metrics.publish(machine, published);
        }
        let removed = machine.take_removed();
        let panicked = std::mem::take(panicked);
        drop(state);
        drop(wake);
        drop(removed);
        if panicked > 0 {
            self.report_panics(panicked);
        }
    }

    /// Ignores poisoning: only user code can panic under the lock, and the machine's invariants hold whenever it is called.
    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        lock(&self.state.0)
    }
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        let state = self.state.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(metrics) = &self.metrics {
            metrics.retire(&mut state.published);
        }
    }
}

/// Calls the waiters that the state of the machine concerns. `spinning` workers take keys without being called.
#[inline(never)]
fn call_waiters<K: Key>(
    machine: &QueueMachine<K>,
    waiters: &mut Waiters,
    drainers: &mut Waiters,
    spinning: usize,
    wake: &mut Wake,
) {
    if machine.is_over() {
        waiters.call_all(wake);
        if machine.is_drained() || machine.is_shut_down() {
            drainers.call_all(wake);
        }
    } else {
        waiters.call(machine.len().saturating_sub(spinning), machine.next_wake(), wake);
        if machine.is_shut_down() {
            drainers.call_all(wake);
        }
    }
}

/// The lock during an update. Its drop wakes waiters, also after a panic of user code.
struct UpdateGuard<'s, K: Key> {
    shared: &'s Shared<K>,
    now: Time,
    /// None after the drop.
    state: Option<MutexGuard<'s, QueueState<K>>>,
}

impl<'s, K: Key> UpdateGuard<'s, K> {
    #[inline(always)]
    fn run<T>(mut self, change: impl FnOnce(&mut QueueState<K>, Time) -> T) -> T {
        let shared = self.shared;
        change(self.state.get_or_insert_with(|| shared.lock()), self.now)
    }
}

impl<K: Key> Drop for UpdateGuard<'_, K> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.shared.settle(state, self.now);
        }
    }
}
