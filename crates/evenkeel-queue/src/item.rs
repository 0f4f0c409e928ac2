//! A key in the hands of a worker.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::Key;
use crate::machine::keys::Slot;
use crate::machine::time::Time;
use crate::machine::{QueueMachine, Requeue, Run, TakenKey};
use crate::observer::{ItemOutcome, KeyEvent};
use crate::shared::{BackoffWait, Shared};
use crate::sync::{Arc, thread};

/// A key that is being processed.
///
/// As long as the item lives, no other worker gets the same key; if the key is added meanwhile, it is handed out once more
/// afterwards. The item says how it went: [`forget`](Self::forget) if well, [`retry`](Self::retry) if not. Dropped without
/// a word, it is finished, and its failures so far are remembered. So whatever becomes of the worker, the key is never stuck.
///
/// A `?` in a worker that holds an item drops it: the key is finished, though the work was not. Either let the work be a function
/// of its own, whose result decides about the item, or build the queue with
/// [`retry_dropped(true)`](crate::QueueBuilder::retry_dropped):
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
/// A worker that panics while it holds an item has failed: the key is tried again after its backoff. What happens to an item
/// that is dropped because the worker was cancelled is decided by
/// [`QueueBuilder::retry_dropped`](crate::QueueBuilder::retry_dropped).
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
    pub(crate) fn new(shared: &Arc<Shared<K>>, taken: TakenKey<K>) -> Self {
        let TakenKey { key, slot, run, priority, failures, waited } = taken;
        // Without a name, the time is not read at each add.
        let waited = if shared.metrics.is_some() { waited } else { Duration::ZERO };
        // From here on, nothing that a recorder or a runtime may do leaves the key without somebody who has it.
        let item = Item { shared: shared.clone(), key, slot, run, priority, failures, waited, is_finished: false };
        if let Some(metrics) = &shared.metrics {
            metrics.taken(waited);
            crate::metrics::watch(shared);
        }
        shared.observers.tell(&item.key, || KeyEvent::Dequeued { priority, waited, failures });
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
        self.end(ItemOutcome::Succeeded);
    }

    /// It did not go well: the key comes back after its backoff. The error is logged, with its causes if it is one that shows
    /// them by `{:#}`.
    ///
    /// The failure counts if the backoff for the last one is over by now. If the key was added in between for another reason
    /// and fails before that, the next backoff is not longer for it: the one that goes on is waited for.
    ///
    /// While the queue is shutting down, the key does not come back.
    ///
    /// # Panics
    /// If the limiter does. The key then comes back after the backoff of a queue without a limiter of its own.
    pub fn retry(mut self, error: impl fmt::Display) {
        self.shared.observers.tell_failed(&self.key, &error);
        let backoff = self.fail(ItemOutcome::Failed);
        let queue = self.shared.name();
        let error = format_args!("{error:#}");
        match backoff {
            Some(BackoffWait { failures, wait, panic }) => {
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
        self.end(ItemOutcome::GaveUp);
        let (queue, error) = (self.shared.name(), format_args!("{error:#}"));
        tracing::error!(queue, key = ?self.key, %error, "failed for good, will not be tried again");
    }

    /// There is nothing wrong, but the work is not done: the key comes back after its backoff, as if it had failed. It is not
    /// logged. controller-runtime's `Requeue`.
    ///
    /// While the queue is shutting down, the key does not come back.
    ///
    /// # Panics
    /// If the limiter does, as [`retry`](Self::retry).
    pub fn requeue(mut self) {
        if let Some(panic) = self.fail(ItemOutcome::Requeued).and_then(|backoff| backoff.panic) {
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
    fn end(&mut self, outcome: ItemOutcome) {
        self.shared.limiter.forget(&self.key);
        let slot = self.slot;
        self.tell_finished(outcome, None, 0);
        self.finish(false, |machine, _| machine.forget_slot(slot));
    }

    fn come_back(&mut self, wait: Duration, forget: bool) {
        let (slot, priority) = (self.slot, self.priority);
        let requeue = Some(Requeue { wait, is_backoff: false });
        match forget {
            true => self.tell_finished(ItemOutcome::Succeeded, requeue, 0),
            false => self.tell_finished(ItemOutcome::Requeued, requeue, self.failures),
        }
        self.finish(true, |machine, now| {
            if forget {
                machine.forget_slot(slot);
            }
            machine.add_slot_at(slot, priority, now.after(wait), false, now);
        });
    }

    /// The key comes back after its backoff. None if it does not, because the queue is shutting down.
    fn fail(&mut self, outcome: ItemOutcome) -> Option<BackoffWait> {
        let (slot, priority) = (self.slot, self.priority);
        let backoff = self.shared.backoff(&self.key, |machine, now| machine.fail_slot(slot, now));
        let wait = backoff.as_ref().map(|backoff| backoff.wait);
        let failures = backoff.as_ref().map_or(self.failures, |backoff| backoff.failures);
        self.tell_finished(outcome, wait.map(|wait| Requeue { wait, is_backoff: true }), failures);
        self.finish(true, |machine, now| {
            if let Some(wait) = wait {
                machine.add_slot_at(slot, priority, now.after(wait), true, now);
            }
        });
        backoff
    }

    /// Says how it went while no other worker can have the key, and where that leaves it as far as is known by now.
    fn tell_finished(&self, outcome: ItemOutcome, requeue: Option<Requeue>, failures: u32) {
        self.shared.observers.tell(&self.key, || {
            let (requeue, state) = self.shared.look(|state| {
                let requeue = requeue.filter(|_| state.machine.is_running());
                (requeue, state.machine.state_after_finish(self.slot, requeue))
            });
            KeyEvent::Finished { outcome, requeue_after: requeue.map(|requeue| requeue.wait), state, failures }
        });
    }

    fn finish(&mut self, timed: bool, last: impl FnOnce(&mut QueueMachine<K>, Time)) {
        self.is_finished = true;
        let (slot, run) = (self.slot, self.run);
        // The key that the queue had is dropped without the lock.
        let (took, _key) = self.shared.change(timed, |machine, now| {
            last(machine, now);
            machine.finish(slot, run, now)
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
            self.tell_finished(ItemOutcome::Dropped, None, self.failures);
            return self.finish(false, |_, _| {});
        }
        // A panic of the limiter, of a storage, or of how a key is shown, ends here: it would end the program if the worker is
        // panicking already.
        _ = catch_unwind(AssertUnwindSafe(|| {
            let outcome = if is_panicking { ItemOutcome::Panicked } else { ItemOutcome::Dropped };
            let wait = self.fail(outcome).map(|backoff| backoff.wait);
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
