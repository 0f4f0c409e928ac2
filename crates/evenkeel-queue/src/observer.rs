//! Whoever wants to know what becomes of each key: [`Observer`].

use std::fmt;
use std::time::Duration;

use evenkeel_base::Observers;

/// Hears what becomes of the keys of a queue: see [`WorkQueue::observe`](crate::WorkQueue::observe).
///
/// # What may be assumed
/// - It is called without the queue's lock, on the thread that does what it is told of. So it may call the queue.
/// - Of one key, a hand-out is told after the add that led to it, and what came of it before the next hand-out.
///
/// # What is not promised
/// - An add is told before it is done. A queue that is shutting down takes no keys, and one that has the key already keeps it
///   once: whether an add changed anything is seen by what follows.
/// - Steps of several threads may be told at the same time, and those of different keys in any order. Two adds of a key by two
///   threads have no order either.
/// - A key that comes back by itself, after its backoff, is not told as an add: what came of it said when it would.
///
/// It should be quick: whoever adds a key or takes one waits for it. If it panics, that is logged, nobody else notices, and it is
/// called no more.
pub trait Observer<K>: Send + Sync + 'static {
    /// Something happens to a key.
    fn event(&self, key: &K, event: KeyEvent);

    /// A key has failed for this reason, by [`Item::retry`](crate::Item::retry) or [`Item::give_up`](crate::Item::give_up). That it
    /// is finished is told next.
    fn failed(&self, key: &K, error: &dyn fmt::Display) {
        let _ = (key, error);
    }

    /// The queue is being shut down or drained. That may be told several times.
    fn shut_down(&self) {}
}

/// Something that happens to a key: see [`Observer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyEvent {
    /// It is being added.
    Added {
        /// With this priority.
        priority: i32,
        /// To be handed out after so long; `None` for now.
        after: Option<Duration>,
        /// Whether that is because it failed.
        rate_limited: bool,
    },
    /// A worker has it.
    Dequeued {
        /// The priority that it has.
        priority: i32,
        /// How long it was ready; zero if the queue has no name.
        waited: Duration,
        /// How often it has failed in a row.
        failures: u32,
    },
    /// The worker is done with it.
    Finished {
        /// How that went.
        outcome: ItemOutcome,
        /// When it comes back by itself: after so long. `None` if it does not, also because the queue is shutting down.
        requeue_after: Option<Duration>,
        /// Where that leaves it.
        state: KeyState,
        /// How often it has failed in a row now.
        failures: u32,
    },
}

/// How it went for a key: see [`KeyEvent::Finished`].
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
    /// The item was dropped without a verdict, and is retried.
    Dropped,
    /// The item was dropped by a panic.
    Panicked,
}

/// Where a key is when a worker is done with it: see [`KeyEvent::Finished`].
///
/// An add that is told at the same time, by another thread, may not be seen here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// Not in the queue.
    Absent,
    /// In the queue, to be handed out as soon as somebody asks: it was added while the worker had it.
    Ready,
    /// In the queue, and waits for its time: it comes back by itself, or was added for later before.
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
