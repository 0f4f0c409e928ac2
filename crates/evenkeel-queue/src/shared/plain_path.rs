//! The plain path of a queue: the inbox, and workers that spin.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::{QueueState, Shared};
use crate::Key;
use crate::inbox::{DeferredCall, Left};
use crate::machine::keys::Slot;
use crate::machine::time::Time;
use crate::machine::{Run, TakeResult, TakenKey};
use crate::sync::{Ordering, thread, try_lock};

/// How long a blocking worker spins: rounds that end with a yield to other threads, and pauses in each of them.
const SPIN_ROUNDS: usize = if cfg!(shuttle) { 2 } else { 8 };
const SPINS: usize = if cfg!(shuttle) { 1 } else { 32 };

impl<K: Key> Shared<K> {
    /// Adds a key with the default priority.
    #[inline]
    pub(crate) fn add(&self, hash: u64, key: K) {
        match self.inbox.leave(DeferredCall::Add { hash, key }) {
            Left::Behind => {}
            Left::Late => self.apply_left(),
            Left::Refused(DeferredCall::Add { hash, key }) => {
                _ = self.change(false, |machine, now| machine.add(hash, key, 0, now));
            }
            // The call that is refused is the one that was left.
            Left::Refused(DeferredCall::Finish { .. }) => {}
        }
    }

    /// Ends a run; `forgets` if the failures are cleared. Returns the duration of the run, if the queue keeps times.
    #[inline]
    pub(crate) fn finish(&self, slot: Slot, run: Run, forgets: bool) -> Option<Duration> {
        let finish = |state: &mut QueueState<K>, now| {
            if forgets {
                state.machine.forget_slot(slot);
            }
            state.machine.finish(slot, run, now)
        };
        // Queues that are not plain wait for the lock. For the others, the next holder does the work if there is one already.
        if self.is_plain {
            if let Some(state) = try_lock(&self.state.0) {
                drop(self.enter(state, None).run(finish));
                return None;
            }
            match self.inbox.leave(DeferredCall::Finish { slot, run, forgets }) {
                Left::Behind => return None,
                Left::Late => {
                    self.apply_left();
                    return None;
                }
                Left::Refused(_) => {}
            }
        }
        // The key is dropped without the lock.
        let (took, _key) = self.update(false, finish);
        self.metrics.is_some().then_some(took)
    }

    /// Applies the calls in the inbox to the state.
    #[inline(never)]
    pub(super) fn apply_inbox(&self, state: &mut QueueState<K>, now: Time) {
        self.inbox.take(&mut state.deferred);
        apply_deferred(state, now);
    }

    /// Applies the calls in the inbox.
    #[cold]
    fn apply_left(&self) {
        self.update(false, |_, _| {});
    }

    /// Takes a key. If none is ready, the inbox is closed, so that the caller can wait.
    pub(super) fn take_or_close(&self, state: &mut QueueState<K>, now: Time) -> TakeResult<K> {
        match state.machine.take(now) {
            TakeResult::Empty if self.close_inbox(state, now) => state.machine.take(now),
            taken => taken,
        }
    }

    /// Takes a key. If none is ready, the thread spins for some microseconds, unless another one does.
    ///
    /// Waking a blocked thread costs as much as hundreds of keys. While there is a spinning thread, it takes the next key, and
    /// blocked ones stay blocked.
    pub(crate) fn take_or_spin(&self) -> Option<TakenKey<K>> {
        let mut spins = false;
        let taken = self.update(false, |state, now| {
            let taken = state.machine.take(now);
            spins = self.is_plain && !state.is_spinning && matches!(taken, TakeResult::Empty);
            if spins {
                state.is_spinning = true;
                self.calls_spinner.store(false, Ordering::Relaxed);
            }
            taken
        });
        let taken = match spins {
            false => taken,
            true => {
                self.spin();
                self.update(false, |state, now| {
                    state.is_spinning = false;
                    state.machine.take(now)
                })
            }
        };
        match taken {
            TakeResult::Taken(taken) => Some(taken),
            TakeResult::Empty | TakeResult::Over | TakeResult::Busy => None,
        }
    }

    fn spin(&self) {
        for _ in 0..SPIN_ROUNDS {
            for _ in 0..SPINS {
                if self.inbox.has_calls() || self.calls_spinner.load(Ordering::Relaxed) {
                    return;
                }
                std::hint::spin_loop();
            }
            thread::yield_now();
        }
    }

    /// Opens the inbox if it may be open now, and closes it if it may not.
    #[inline]
    pub(super) fn open_or_close_inbox(&self, state: &mut QueueState<K>, now: Time) {
        let has_time = state.waiters.is_empty() || state.is_spinning;
        // Waiters for runs in flight must see each end.
        let opens = has_time && state.machine.is_running() && !state.machine.needs_time() && state.drainers.is_empty();
        if !opens {
            self.close_inbox(state, now);
        } else if !state.is_inbox_open {
            self.inbox.open();
            state.is_inbox_open = true;
        }
    }

    /// Closes the inbox, if it is open. Returns whether calls were left in it, which are applied now.
    fn close_inbox(&self, state: &mut QueueState<K>, now: Time) -> bool {
        if !std::mem::take(&mut state.is_inbox_open) {
            return false;
        }
        self.inbox.close(&mut state.deferred);
        let has_calls = !state.deferred.is_empty();
        apply_deferred(state, now);
        has_calls
    }

    #[cold]
    pub(super) fn report_panics(&self, calls: usize) {
        tracing::error!(queue = self.name(), calls, "key panicked when it was compared; its add is lost");
    }
}

/// Applies the calls that were taken from the inbox.
///
/// Comparing keys is user code. If it panics, the caller that left the call is not there any more: the panic is counted.
#[inline]
fn apply_deferred<K: Key>(state: &mut QueueState<K>, now: Time) {
    let QueueState { machine, deferred, panicked, .. } = state;
    let mut calls = deferred.drain(..);
    while catch_unwind(AssertUnwindSafe(|| machine.apply(&mut calls, now))).is_err() {
        *panicked += 1;
    }
}
