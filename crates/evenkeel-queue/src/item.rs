//! A key in flight.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::Key;
use crate::machine::keys::Slot;
use crate::machine::time::Time;
use crate::machine::{QueueMachine, Requeue, Run, TakenKey};
use crate::observer::{ItemOutcome, KeyEvent, Notify};
use crate::shared::{BackoffWait, Shared};
use crate::sync::{Arc, thread};

/// A key that a worker processes.
///
/// While the item exists, no other worker gets the same key. If the key is added meanwhile, it is handed out once more
/// afterwards. The worker ends the item with a verdict:
///
/// | verdict | the key | its failures |
/// |---|---|---|
/// | [`forget`](Self::forget) | is finished | cleared |
/// | [`done`](Self::done) | is finished | kept |
/// | [`retry`](Self::retry) | returns after its backoff; the error is logged | one more |
/// | [`requeue`](Self::requeue) | returns after its backoff | one more |
/// | [`requeue_after`](Self::requeue_after) | returns after a duration | cleared |
/// | [`retry_after`](Self::retry_after) | returns after a duration | kept |
/// | [`give_up`](Self::give_up) | is finished; the error is logged | cleared |
///
/// An item that is dropped without a verdict is retried after its backoff, as by [`requeue`](Self::requeue): a worker that panics,
/// is cancelled, or returns early by `?` loses no work.
///
/// ```
/// use evenkeel_queue::{Item, WorkQueue};
///
/// fn work(item: Item<String>) -> Result<(), std::num::ParseIntError> {
///     let _number: i32 = item.key().parse()?; // an error drops the item
///     item.forget();
///     Ok(())
/// }
///
/// let queue = WorkQueue::new();
/// queue.add("one".to_owned());
/// assert!(work(queue.try_next().unwrap()).is_err());
/// assert_eq!(queue.failures(&"one".to_owned()), 1); // and the key returns after its backoff
/// ```
///
/// While the queue is shutting down, no key returns, whatever the verdict.
///
/// An item may be sent to another thread or task and finished there.
#[must_use = "an item that is dropped without a verdict is retried"]
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
        // A queue without a name does not read the clock at each add.
        let waited = if shared.metrics.is_some() { waited } else { Duration::ZERO };
        // The item exists before a recorder or a runtime is called: should they panic, its drop releases the key.
        let item = Item { shared: shared.clone(), key, slot, run, priority, failures, waited, is_finished: false };
        if let Some(metrics) = &shared.metrics {
            metrics.taken(waited);
            crate::metrics::watch(shared);
        }
        shared.observers.event(&item.key, || KeyEvent::Dequeued { priority, waited, failures });
        item
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the number of consecutive failures before this run, up to 4,095.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the priority that the key was handed out with.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns how long the key was ready before it was handed out. Zero if the queue has no name.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Finishes a key that succeeded and clears its failures.
    pub fn forget(mut self) {
        self.end(ItemOutcome::Succeeded);
    }

    /// Finishes a key without a verdict on its failures: they are kept until they expire. client-go's `Done` without `Forget`.
    pub fn done(mut self) {
        self.notify_finished(ItemOutcome::Done, None, self.failures);
        self.finish(false);
    }

    /// Records a failure: the key returns after its backoff. The error is logged by `{:#}`, which many errors print with their
    /// causes.
    ///
    /// The failure counts if the backoff of the last one is over. If the key was added meanwhile for another reason and fails
    /// before that, its backoff does not grow: the current one continues.
    ///
    /// While the queue is shutting down, the key does not return.
    ///
    /// # Panics
    /// If the limiter panics. The key then returns after the default backoff.
    pub fn retry(self, error: impl fmt::Display) {
        self.fail_with(None, &error);
    }

    /// Records a failure as [`retry`](Self::retry) does, but the key returns after `wait` instead of its backoff. The backoff of the
    /// next failure is as long as if this one had waited for its own.
    ///
    /// While the queue is shutting down, the key does not return.
    ///
    /// # Panics
    /// If the limiter panics, as [`retry`](Self::retry).
    pub fn fail_after(self, wait: Duration, error: impl fmt::Display) {
        self.fail_with(Some(wait), &error);
    }

    fn fail_with(mut self, wait: Option<Duration>, error: &dyn fmt::Display) {
        self.shared.observers.failed(&self.key, error);
        let backoff = self.fail(ItemOutcome::Failed, wait);
        let queue = self.shared.name();
        let error = format_args!("{error:#}");
        match backoff {
            Some(BackoffWait { failures, wait, panic }) => {
                tracing::warn!(queue, key = ?self.key, failures, retry_in = ?wait, %error, "failed; retrying");
                if let Some(panic) = panic {
                    resume_unwind(panic);
                }
            }
            None => {
                tracing::warn!(queue, key = ?self.key, %error, "failed; not retrying, the queue is shutting down or refuses the key");
            }
        }
    }

    /// Finishes a key whose failure is permanent: it is not retried until it is added, and its failures are cleared. The error is
    /// logged as by [`retry`](Self::retry), at the level `error`.
    pub fn give_up(mut self, error: impl fmt::Display) {
        self.shared.observers.failed(&self.key, &error);
        self.end(ItemOutcome::GaveUp);
        let (queue, error) = (self.shared.name(), format_args!("{error:#}"));
        tracing::error!(queue, key = ?self.key, %error, "failed permanently; not retrying");
    }

    /// Returns the key to the queue after its backoff, without an error: the work is incomplete. Counts as a failure.
    /// controller-runtime's `Requeue`.
    ///
    /// While the queue is shutting down, the key does not return.
    ///
    /// # Panics
    /// If the limiter panics, as [`retry`](Self::retry).
    pub fn requeue(mut self) {
        if let Some(panic) = self.fail(ItemOutcome::Requeued, None).and_then(|backoff| backoff.panic) {
            resume_unwind(panic);
        }
    }

    /// Returns the key to the queue after a duration and keeps its failures. While the queue is shutting down, the key does not
    /// return.
    pub fn retry_after(mut self, wait: Duration) {
        self.return_after(wait, false);
    }

    /// Returns a key that succeeded to the queue after a duration and clears its failures. While the queue is shutting down, the
    /// key does not return.
    pub fn requeue_after(mut self, wait: Duration) {
        self.shared.limiter.forget(&self.key);
        self.return_after(wait, true);
    }

    /// Finishes the key and clears its failures.
    fn end(&mut self, outcome: ItemOutcome) {
        self.shared.limiter.forget(&self.key);
        self.notify_finished(outcome, None, 0);
        self.finish(true);
    }

    fn return_after(&mut self, wait: Duration, forget: bool) {
        let (slot, priority) = (self.slot, self.priority);
        let requeue = Some(Requeue { wait, is_backoff: false });
        match forget {
            true => self.notify_finished(ItemOutcome::Succeeded, requeue, 0),
            false => self.notify_finished(ItemOutcome::Requeued, requeue, self.failures),
        }
        self.finish_with(|machine, now| {
            if forget {
                machine.forget_slot(slot);
            }
            machine.return_at(slot, priority, now.after(wait), false, now);
        });
    }

    /// Counts a failure and returns the key to the queue after `instead`, or else after its backoff. Returns `None` if the queue is
    /// shutting down, or refuses the key.
    fn fail(&mut self, outcome: ItemOutcome, instead: Option<Duration>) -> Option<BackoffWait> {
        let (slot, priority, is_backoff) = (self.slot, self.priority, instead.is_none());
        let mut backoff = self.shared.record_failure(&self.key, |machine, now| machine.fail_slot(slot, now));
        if let (Some(backoff), Some(instead)) = (&mut backoff, instead) {
            backoff.wait = instead;
        }
        let wait = backoff.as_ref().map(|backoff| backoff.wait);
        let failures = backoff.as_ref().map_or(self.failures, |backoff| backoff.failures);
        self.notify_finished(outcome, wait.map(|wait| Requeue { wait, is_backoff }), failures);
        self.finish_with(|machine, now| {
            if let Some(wait) = wait {
                machine.return_at(slot, priority, now.after(wait), is_backoff, now);
            }
        });
        backoff
    }

    /// Notifies the observers of the outcome, before another worker can get the key.
    fn notify_finished(&self, outcome: ItemOutcome, requeue: Option<Requeue>, failures: u32) {
        self.shared.observers.event(&self.key, || {
            let (requeue, state) = self.shared.look(|state| {
                let requeue = requeue.filter(|_| state.machine.accepts(&self.key));
                (requeue, state.machine.state_after_finish(self.slot, requeue))
            });
            KeyEvent::Finished { outcome, requeue_after: requeue.map(|requeue| requeue.wait), state, failures }
        });
    }

    /// Finishes the key; `forgets` if its failures are cleared.
    fn finish(&mut self, forgets: bool) {
        self.is_finished = true;
        let took = self.shared.finish(self.slot, self.run, forgets);
        self.report(took);
    }

    /// Finishes the key after a last change.
    fn finish_with(&mut self, last: impl FnOnce(&mut QueueMachine<K>, Time)) {
        self.is_finished = true;
        let (slot, run) = (self.slot, self.run);
        // The key of the queue is dropped without the lock.
        let (took, _key) = self.shared.change(true, |machine, now| {
            last(machine, now);
            machine.finish(slot, run, now)
        });
        self.report(Some(took));
    }

    fn report(&self, took: Option<Duration>) {
        if let (Some(metrics), Some(took)) = (&self.shared.metrics, took) {
            metrics.finished(took);
        }
    }
}

impl<K: Key> Drop for Item<K> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // A panic of the limiter, of a ready order or of a key's Debug ends here: during unwinding it would abort the process.
        _ = catch_unwind(AssertUnwindSafe(|| {
            let is_panicking = thread::panicking();
            let outcome = if is_panicking { ItemOutcome::Panicked } else { ItemOutcome::Dropped };
            let retry_in = self.fail(outcome, None).map(|backoff| backoff.wait);
            let queue = self.shared.name();
            if is_panicking {
                tracing::error!(queue, key = ?self.key, ?retry_in, "worker panicked; retrying");
            } else {
                tracing::debug!(queue, key = ?self.key, ?retry_in, "item dropped without a verdict; retrying");
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
