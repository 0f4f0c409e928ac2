//! [`Next`]: the result of a reconcile that succeeded.

use std::time::Duration;

/// When a key is reconciled again, apart from events. controller-runtime's `reconcile.Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a reconcile returns this"]
pub struct Next {
    pub(super) requeue: Requeue,
    pub(super) priority: Option<i32>,
}

/// How a key is put back into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requeue {
    No,
    Backoff,
    After(Duration),
}

impl Next {
    const fn new(requeue: Requeue) -> Self {
        Next { requeue, priority: None }
    }

    /// Waits for the next event. Resets the backoff of the key.
    pub const fn done() -> Self {
        Next::new(Requeue::No)
    }

    /// Requeues the key with backoff, which grows as if the reconcile had failed. For a state that is not reached yet and whose
    /// change no informer reports.
    pub const fn requeue() -> Self {
        Next::new(Requeue::Backoff)
    }

    /// Requeues the key after `wait`, or earlier if an event arrives. Resets the backoff of the key. Zero is
    /// [`done`](Self::done).
    pub const fn after(wait: Duration) -> Self {
        if wait.is_zero() { Next::done() } else { Next::new(Requeue::After(wait)) }
    }

    /// Sets the priority of the requeued key, in place of the priority that it had. Has no effect on [`done`](Self::done).
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}
