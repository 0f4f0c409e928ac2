//! [`Observer`]: instrumentation of key transitions.

use std::fmt;
use std::time::Duration;

use evenkeel_base::Observers;

/// Observes the key transitions of a queue: see [`WorkQueue::observe`](crate::WorkQueue::observe).
///
/// # Guarantees
/// - The queue calls the observer without its lock, on the thread that causes the event. An observer may call the queue.
/// - For one key, `Dequeued` follows the `Added` that led to it, and `Finished` precedes the next `Dequeued`.
///
/// # Not guaranteed
/// - `Added` precedes the add. A queue that is shutting down ignores it, and a queue that contains the key keeps it once:
///   the following events show whether the add had an effect.
/// - Events of several threads may be concurrent, and events of different keys have no order. Two adds of one key by two
///   threads have no order either.
/// - A key that returns after its backoff causes no `Added`: its `Finished` has the wait.
///
/// An observer should be quick: producers and workers wait for it. An observer that panics is logged and not called again; the
/// queue is unaffected.
pub trait Observer<K>: Send + Sync + 'static {
    /// Reports a transition of a key.
    fn event(&self, key: &K, event: KeyEvent);

    /// Reports the error of [`Item::retry`](crate::Item::retry) or [`Item::give_up`](crate::Item::give_up). `Finished` follows.
    fn failed(&self, key: &K, error: &dyn fmt::Display) {
        let _ = (key, error);
    }

    /// Reports that the queue is shut down or drained. It may be called more than once.
    fn shut_down(&self) {}
}

/// A transition of a key: see [`Observer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyEvent {
    /// The key is being added.
    Added {
        /// The priority of the add.
        priority: i32,
        /// The delay; `None` without one.
        after: Option<Duration>,
        /// Whether the delay is a backoff.
        rate_limited: bool,
    },
    /// A worker received the key.
    Dequeued {
        /// The priority of the key.
        priority: i32,
        /// How long the key was ready; zero if the queue has no name.
        waited: Duration,
        /// Consecutive failures so far.
        failures: u32,
    },
    /// The worker finished the key.
    Finished {
        /// The verdict.
        outcome: ItemOutcome,
        /// The wait until the key returns. `None` if it does not, also because the queue is shutting down.
        requeue_after: Option<Duration>,
        /// The state of the key afterwards.
        state: KeyState,
        /// Consecutive failures now.
        failures: u32,
    },
}

/// The verdict on an item: see [`KeyEvent::Finished`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemOutcome {
    /// [`Item::forget`](crate::Item::forget), or [`Item::requeue_after`](crate::Item::requeue_after).
    Succeeded,
    /// [`Item::retry`](crate::Item::retry).
    Failed,
    /// [`Item::give_up`](crate::Item::give_up).
    GaveUp,
    /// [`Item::requeue`](crate::Item::requeue), or [`Item::retry_after`](crate::Item::retry_after).
    Requeued,
    /// [`Item::done`](crate::Item::done).
    Done,
    /// The item was dropped without a verdict.
    Dropped,
    /// The item was dropped by a panic.
    Panicked,
}

/// The state of a key after a worker finished it: see [`KeyEvent::Finished`].
///
/// A concurrent add by another thread may not be visible here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// Not in the queue.
    Absent,
    /// Ready: the key was added while it was in flight.
    Ready,
    /// Delayed: the key returns after a wait, or was added with a delay before.
    Delayed,
}

/// Calls the observers of a queue.
pub(crate) trait Notify<K> {
    /// Reports an event of a key. The event is made only if there is an observer.
    fn event(&self, key: &K, event: impl FnOnce() -> KeyEvent);
    /// Reports the error of a key.
    fn failed(&self, key: &K, error: &dyn fmt::Display);
    /// Reports that the queue is shut down or drained.
    fn shut_down(&self);
}

const COMPONENT: &str = "work queue";

impl<K: 'static> Notify<K> for Observers<dyn Observer<K>> {
    #[inline]
    fn event(&self, key: &K, event: impl FnOnce() -> KeyEvent) {
        if self.is_any() {
            let event = event();
            self.call(COMPONENT, |observer| observer.event(key, event));
        }
    }

    fn failed(&self, key: &K, error: &dyn fmt::Display) {
        self.call(COMPONENT, |observer| observer.failed(key, error));
    }

    fn shut_down(&self) {
        self.call(COMPONENT, |observer| observer.shut_down());
    }
}
