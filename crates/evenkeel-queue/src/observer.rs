//! Whoever wants to know what becomes of each key: [`Observer`].

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Key;
use crate::shared::Shared;
use crate::sync::{Mutex, MutexGuard, Weak};

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
    /// The item was dropped without a word.
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

/// An observer of a queue. When this is dropped, it is called no more, but for calls that are being made.
#[must_use = "the observer is called no more when this is dropped"]
pub struct ObserverGuard<K: Key> {
    queue: Weak<Shared<K>>,
    number: u64,
}

impl<K: Key> ObserverGuard<K> {
    pub(crate) fn new(queue: Weak<Shared<K>>, number: u64) -> Self {
        ObserverGuard { queue, number }
    }
}

impl<K: Key> Drop for ObserverGuard<K> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.observers.remove(self.number);
        }
    }
}

impl<K: Key> fmt::Debug for ObserverGuard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserverGuard").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Those who observe a queue. If there are none, which is the usual case, that costs one load.
pub(crate) struct Observers<K> {
    any: AtomicBool,
    list: Mutex<List<K>>,
}

struct List<K> {
    next: u64,
    entries: Vec<std::sync::Arc<ObserverEntry<K>>>,
}

struct ObserverEntry<K> {
    number: u64,
    has_panicked: AtomicBool,
    observer: Box<dyn Observer<K>>,
}

impl<K> Default for Observers<K> {
    fn default() -> Self {
        Observers { any: AtomicBool::new(false), list: Mutex::new(List { next: 0, entries: Vec::new() }) }
    }
}

impl<K: 'static> Observers<K> {
    /// Whether there is anybody to tell.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    pub(crate) fn add(&self, observer: Box<dyn Observer<K>>) -> u64 {
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.entries.push(std::sync::Arc::new(ObserverEntry {
            number,
            has_panicked: AtomicBool::new(false),
            observer,
        }));
        self.any.store(true, Ordering::Release);
        number
    }

    fn remove(&self, number: u64) {
        let mut list = self.lock();
        let place = list.entries.iter().position(|entry| entry.number == number);
        let entry = place.map(|place| list.entries.remove(place));
        self.any.store(!list.entries.is_empty(), Ordering::Release);
        drop(list);
        // Not under the lock: it may hold anything.
        drop(entry);
    }

    /// Tells of a step, if there is anybody to tell.
    #[inline]
    pub(crate) fn tell(&self, key: &K, event: impl FnOnce() -> KeyEvent) {
        if self.is_any() {
            let event = event();
            self.call(|observer| observer.event(key, event));
        }
    }

    pub(crate) fn tell_failed(&self, key: &K, error: &dyn fmt::Display) {
        if self.is_any() {
            self.call(|observer| observer.failed(key, error));
        }
    }

    pub(crate) fn tell_shut_down(&self) {
        if self.is_any() {
            self.call(|observer| observer.shut_down());
        }
    }

    #[cold]
    fn call(&self, call: impl Fn(&dyn Observer<K>)) {
        let entries = self.lock().entries.clone();
        for entry in entries {
            if entry.has_panicked.load(Ordering::Relaxed) {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| call(&*entry.observer))).is_err() {
                entry.has_panicked.store(true, Ordering::Relaxed);
                tracing::error!("an observer of a queue has panicked; it is told nothing more");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, List<K>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
