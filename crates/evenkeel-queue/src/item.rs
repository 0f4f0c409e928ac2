//! A key in the hands of a worker.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::Key;
use crate::core::keys::Slot;
use crate::core::time::Time;
use crate::core::{Core, Returns, Run, Taken};
use crate::observe::{Outcome, Step};
use crate::shared::{BackOff, Shared};
use crate::sync::{Arc, thread};

/// A key that is being processed.
///
/// As long as the item lives, no other worker gets the same key; if the key is added meanwhile, it is handed out once more
/// afterwards. The item says how it went: [`forget`](Self::forget) if well, [`retry`](Self::retry) if not. Dropped without
/// a word, it is finished, and its failures so far are remembered. So whatever becomes of the worker, the key is never stuck.
///
/// A `?` in a worker that holds an item drops it: the key is finished, though the work was not. Either let the work be a function
/// of its own, whose result decides about the item, or build the queue with
/// [`retry_dropped(true)`](crate::Builder::retry_dropped):
///
/// ```
/// use evenkeel_queue::{Item, WorkQueue};
///
/// fn work(item: Item<String>) -> Result<(), std::num::ParseIntError> {
///     let _number: i32 = item.key().parse()?; // drops the item if it fails
///     item.forget();
///     Ok(())
/// }
///
/// let queue = WorkQueue::builder().retry_dropped(true).build();
/// queue.add("one".to_owned());
/// assert!(work(queue.try_next().unwrap()).is_err());
/// assert_eq!(queue.failures(&"one".to_owned()), 1);
/// ```
///
/// A worker that panics while it holds an item has failed: the key is tried again after its back-off. What happens to an item
/// that is dropped because the worker was cancelled is decided by
/// [`Builder::retry_dropped`](crate::Builder::retry_dropped).
///
/// An item may be sent to another thread or task and be finished there.
#[must_use = "an item that is dropped is finished"]
pub struct Item<K: Key> {
    shared: Arc<Shared<K>>,
    key: K,
    slot: Slot,
    run: Run,
    priority: i32,
    failures: u32,
    waited: Duration,
    is_finished: bool,
}

impl<K: Key> Item<K> {
    pub(crate) fn new(shared: &Arc<Shared<K>>, taken: Taken<K>) -> Self {
        let Taken { key, slot, run, priority, failures, waited } = taken;
        // Without a name, the time is not read at each add.
        let waited = if shared.metrics.is_some() { waited } else { Duration::ZERO };
        // From here on, nothing that a recorder or a runtime may do leaves the key without somebody who has it.
        let item = Item { shared: shared.clone(), key, slot, run, priority, failures, waited, is_finished: false };
        if let Some(metrics) = &shared.metrics {
            metrics.taken(waited);
            crate::metrics::watch(shared);
        }
        shared.observers.tell(&item.key, || Step::HandedOut { priority, waited, failures });
        item
    }

    /// What is to be processed.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How often the key has failed in a row before. The queue counts up to 4,095.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The priority it was handed out with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How long the key was ready before it was handed out. Zero if the queue has no name: it keeps no such time.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// It went well: the key has no failures any more.
    pub fn forget(mut self) {
        self.end(Outcome::Succeeded);
    }

    /// It did not go well: the key comes back after its back-off. The error is logged, with its causes if it is one that shows
    /// them by `{:#}`.
    ///
    /// The failure counts if the back-off for the last one is over by now. If the key was added in between for another reason
    /// and fails before that, the next back-off is not longer for it: the one that goes on is waited for.
    ///
    /// While the queue is shutting down, the key does not come back.
    ///
    /// # Panics
    /// If the limiter does. The key then comes back after the back-off of a queue without a limiter of its own.
    pub fn retry(mut self, error: impl fmt::Display) {
        self.shared.observers.tell_failed(&self.key, &error);
        let back_off = self.fail(Outcome::Failed);
        let queue = self.shared.name();
        let error = format_args!("{error:#}");
        match back_off {
            Some(BackOff { failures, wait, panic }) => {
                tracing::warn!(queue, key = ?self.key, failures, ?wait, %error, "failed, will be tried again");
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            }
            None => tracing::warn!(queue, key = ?self.key, %error, "failed, and the queue is shutting down"),
        }
    }

    /// It did not go well, and another attempt would be no use: the key is not tried again until it is added, and has no failures
    /// any more. The error is logged as by [`retry`](Self::retry), and as one that is for good.
    pub fn give_up(mut self, error: impl fmt::Display) {
        self.shared.observers.tell_failed(&self.key, &error);
        self.end(Outcome::GaveUp);
        let (queue, error) = (self.shared.name(), format_args!("{error:#}"));
        tracing::error!(queue, key = ?self.key, %error, "failed for good, will not be tried again");
    }

    /// There is nothing wrong, but the work is not done: the key comes back after its back-off, as if it had failed. It is not
    /// logged. controller-runtime's `Requeue`.
    ///
    /// While the queue is shutting down, the key does not come back.
    ///
    /// # Panics
    /// If the limiter does, as [`retry`](Self::retry).
    pub fn requeue(mut self) {
        if let Some(panic) = self.fail(Outcome::Requeued).and_then(|back_off| back_off.panic) {
            resume_unwind(panic);
        }
    }

    /// The key comes back after so long, unless the queue is shutting down. Its failures stay as they are.
    pub fn retry_after(mut self, wait: Duration) {
        self.come_back(wait, false);
    }

    /// It went well, and the key comes back after so long to be looked at again, unless the queue is shutting down: it has no
    /// failures any more.
    pub fn requeue_after(mut self, wait: Duration) {
        self.shared.limiter.forget(&self.key);
        self.come_back(wait, true);
    }

    /// The key does not come back, and has no failures any more.
    fn end(&mut self, outcome: Outcome) {
        self.shared.limiter.forget(&self.key);
        let slot = self.slot;
        self.tell_finished(outcome, None, 0);
        self.finish(false, |core, _| core.forget_slot(slot));
    }

    fn come_back(&mut self, wait: Duration, forget: bool) {
        let (slot, priority) = (self.slot, self.priority);
        let returns = Some(Returns { wait, is_back_off: false });
        match forget {
            true => self.tell_finished(Outcome::Succeeded, returns, 0),
            false => self.tell_finished(Outcome::Requeued, returns, self.failures),
        }
        self.finish(true, |core, now| {
            if forget {
                core.forget_slot(slot);
            }
            core.add_slot_at(slot, priority, now.after(wait), false, now);
        });
    }

    /// The key comes back after its back-off. None if it does not, because the queue is shutting down.
    fn fail(&mut self, outcome: Outcome) -> Option<BackOff> {
        let (slot, priority) = (self.slot, self.priority);
        let back_off = self.shared.back_off(&self.key, |core, now| core.fail_slot(slot, now));
        let wait = back_off.as_ref().map(|back_off| back_off.wait);
        let failures = back_off.as_ref().map_or(self.failures, |back_off| back_off.failures);
        self.tell_finished(outcome, wait.map(|wait| Returns { wait, is_back_off: true }), failures);
        self.finish(true, |core, now| {
            if let Some(wait) = wait {
                core.add_slot_at(slot, priority, now.after(wait), true, now);
            }
        });
        back_off
    }

    /// Says how it went while no other worker can have the key, and where that leaves it as far as is known by now.
    fn tell_finished(&self, outcome: Outcome, returns: Option<Returns>, failures: u32) {
        self.shared.observers.tell(&self.key, || {
            let (returns, place) = self.shared.look(|state| {
                let returns = returns.filter(|_| state.core.is_running());
                (returns, state.core.place(self.slot, returns))
            });
            Step::Finished { outcome, returns: returns.map(|returns| returns.wait), place, failures }
        });
    }

    fn finish(&mut self, timed: bool, last: impl FnOnce(&mut Core<K>, Time)) {
        self.is_finished = true;
        let (slot, run) = (self.slot, self.run);
        // The key that the queue had is dropped without the lock.
        let (took, _key) = self.shared.change(timed, |core, now| {
            last(core, now);
            core.finish(slot, run, now)
        });
        if let Some(metrics) = &self.shared.metrics {
            metrics.finished(took);
        }
    }
}

impl<K: Key> Drop for Item<K> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let is_panicking = thread::panicking();
        if !is_panicking && !self.shared.retry_dropped {
            self.tell_finished(Outcome::Dropped, None, self.failures);
            return self.finish(false, |_, _| {});
        }
        // A panic of the limiter, of a storage, or of how a key is shown, ends here: it would end the program if the worker is
        // panicking already.
        _ = catch_unwind(AssertUnwindSafe(|| {
            let outcome = if is_panicking { Outcome::Panicked } else { Outcome::Dropped };
            let wait = self.fail(outcome).map(|back_off| back_off.wait);
            let queue = self.shared.name();
            if is_panicking {
                tracing::error!(queue, key = ?self.key, ?wait, "the worker panicked");
            } else {
                tracing::debug!(queue, key = ?self.key, ?wait, "the worker dropped its key");
            }
        }));
    }
}

impl<K: Key> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("failures", &self.failures)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
