//! [`WorkQueue`], the handle of a queue.

use std::fmt;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::drain::Drain;
use crate::machine::QueueMachine;
use crate::machine::time::Time;
use crate::next::{NextItem, next_blocking};
use crate::observer::{KeyEvent, Notify, Observer};
use crate::shared::{BackoffWait, Shared};
use crate::sync::{Arc, Weak};
use crate::{Item, Key, ObserverGuard, QueueBuilder};

/// A queue of keys that need processing.
///
/// # Guarantees
/// - A key is queued once, however often it is added before it is handed out.
/// - A key is in flight with one worker at a time. A key that is added while in flight is handed out once more afterwards.
/// - Keys are handed out in the order in which they were added, unless they have priorities or the queue was built otherwise.
///   A key that is added again is queued last.
/// - A delayed key is handed out at its time or later, never earlier. If a key is delayed twice, the earlier time applies. Keys
///   due at the same time are handed out in the order in which they were added.
/// - Adding never blocks. A key is lost only by [`shut_down`](Self::shut_down), by a [`drain`](Self::drain) that discards delayed
///   keys, by [`remove_if`](Self::remove_if), or by a [suspension](Self::suspend) that refuses adds.
/// - An [`Item`] that is dropped without a verdict is retried.
/// - The queue has no task of its own: waiting workers keep the timers. The one exception reports unfinished work while keys
///   are in flight.
///
/// # Not guaranteed
/// The number of keys is unbounded: each is queued once, so it is at most the number of objects. Which of several waiting
/// workers gets a key is unspecified.
///
/// Handles are cheap to clone and share one queue. The queue lives as long as a handle or an [`Item`]. Producers may hold a
/// [`WeakQueue`], which does not keep it alive.
///
/// ```
/// use evenkeel_queue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let sync = |key: &String| if key.starts_with("bad") { Err("not found") } else { Ok(()) };
/// let queue = WorkQueue::rate_limited("foos");
/// queue.add("default/good".to_owned());
/// queue.shut_down();
/// while let Some(item) = queue.next().await {
///     match sync(item.key()) {
///         Ok(()) => item.forget(),
///         Err(error) => item.retry(error),
///     }
/// }
/// # }
/// ```
pub struct WorkQueue<K: Key> {
    pub(crate) shared: Arc<Shared<K>>,
}

/// Options of [`WorkQueue::add_with`] and [`WorkQueue::add_all`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options have no effect until keys are added with them"]
pub struct AddOptions {
    priority: i32,
    after: Option<Duration>,
    rate_limited: bool,
}

/// The priority of keys from the initial list and from a resync.
pub const LOW_PRIORITY: i32 = -100;

impl AddOptions {
    /// Returns the default options: no delay, priority 0.
    pub const fn new() -> Self {
        AddOptions { priority: 0, after: None, rate_limited: false }
    }

    /// Sets the priority; higher is sooner. The highest priority that a key was added with applies.
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key.
    pub const fn after(mut self, wait: Duration) -> Self {
        self.after = Some(wait);
        self
    }

    /// Counts a failure and delays the key by its backoff, or by [`after`](Self::after) if that is sooner.
    pub const fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

/// What a [`drain`](WorkQueue::drain) does with delayed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainDelayed {
    /// Drops them.
    Discard,
    /// Hands them out at once, including those with an infinite delay.
    Flush,
}

/// A snapshot of a queue: see [`WorkQueue::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys ready to be handed out.
    pub ready: usize,
    /// Keys that need processing: the ready ones, and those added again while in flight.
    pub depth: usize,
    /// Keys in flight.
    pub in_flight: usize,
    /// Delayed keys.
    pub delayed: usize,
    /// Keys that are [suspended](WorkQueue::suspend) and would be ready otherwise, as far as workers have met them.
    pub suspended: usize,
    /// Keys with failures.
    pub failing: usize,
    /// Total adds that made a key need processing.
    pub adds: u64,
    /// Total delayed adds.
    pub retries: u64,
    /// Age of the oldest ready key. `None` if no key is ready, if the queue has no name, or if it has a
    /// custom order. With fairness, only the next key of each priority is considered.
    pub oldest_ready: Option<Duration>,
    /// Age of the longest run in flight. `None` if no key is in flight, or if the queue has no name.
    pub longest_running: Option<Duration>,
}

/// Keys added under one lock.
const BATCH: usize = 256;

impl<K: Key> WorkQueue<K> {
    /// Returns a queue without a name, and therefore without metrics.
    #[expect(clippy::new_without_default, reason = "queues are shared handles, not default values of a field")]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a queue that reports metrics under this name, with a backoff per key of 5 ms to 1,000 s.
    pub fn rate_limited(name: impl Into<String>) -> Self {
        Self::builder().name(name).build()
    }

    /// Returns a builder for a queue.
    pub fn builder() -> QueueBuilder<K> {
        QueueBuilder::new()
    }

    /// Returns the name of the queue.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Adds a key.
    ///
    /// A key that is queued keeps its position. A queue that is shutting down ignores adds.
    pub fn add(&self, key: K) {
        self.notify_added(&key, AddOptions::new());
        let hash = self.shared.hash(&key);
        self.shared.add(hash, key);
    }

    /// Adds a key after a delay.
    ///
    /// The delay is rounded up to 20 µs. [`Duration::MAX`] is an infinite delay; the latest possible time is 44 years after the
    /// queue was built.
    ///
    /// If the key is delayed already, the earlier time applies. [`QueueBuilder::on_readd`] decides what [`add`](Self::add) does
    /// to a delayed key.
    pub fn add_after(&self, key: K, wait: Duration) {
        self.notify_added(&key, AddOptions::new().after(wait));
        let hash = self.shared.hash(&key);
        _ = self.shared.change(true, |machine, now| machine.add_at(hash, key, 0, now.after(wait), false, now));
    }

    /// Counts a failure of a key and adds it after its backoff.
    ///
    /// For failures outside of a worker. Workers use [`Item::retry`].
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Adds a key with options.
    ///
    /// ```
    /// use evenkeel_queue::{AddOptions, LOW_PRIORITY, WorkQueue};
    ///
    /// let queue = WorkQueue::new();
    /// queue.add_with("old", AddOptions::new().priority(LOW_PRIORITY));
    /// queue.add("new");
    /// assert_eq!(queue.try_next().unwrap().key(), &"new");
    /// ```
    pub fn add_with(&self, key: K, how: AddOptions) {
        let AddOptions { priority, after, rate_limited } = how;
        let hash = self.shared.hash(&key);
        if rate_limited {
            let fail = |machine: &mut QueueMachine<K>, now| machine.fail(hash, &key, now);
            let Some(BackoffWait { wait, panic, .. }) = self.shared.record_failure(&key, fail) else { return };
            let wait = after.filter(|after| !after.is_zero()).map_or(wait, |after| wait.min(after));
            self.notify_added(&key, how.after(wait));
            self.shared.change(true, |machine, now| machine.add_at(hash, key, priority, now.after(wait), true, now));
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            return;
        }
        self.notify_added(&key, how);
        match after {
            None => self.shared.change(false, |machine, now| machine.add(hash, key, priority, now)),
            Some(wait) => self
                .shared
                .change(true, |machine, now| machine.add_at(hash, key, priority, now.after(wait), false, now)),
        };
    }

    /// Adds several keys with the same options.
    ///
    /// ```
    /// use evenkeel_queue::{AddOptions, LOW_PRIORITY, WorkQueue};
    ///
    /// let queue = WorkQueue::new();
    /// queue.add_all(["old", "older"], AddOptions::new().priority(LOW_PRIORITY));
    /// queue.add("new");
    /// assert_eq!(queue.try_next().unwrap().key(), &"new");
    /// ```
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, how: AddOptions) {
        if how.rate_limited {
            // Each failure is followed by its add.
            return keys.into_iter().for_each(|key| self.add_with(key, how));
        }
        let AddOptions { priority, after, .. } = how;
        let mut keys = keys.into_iter().map(|key| (self.shared.hash(&key), Some(key)));
        loop {
            // The iterator is user code: it runs without the lock. Keys that are not needed are dropped without it, too.
            let mut batch: Vec<_> = keys.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return;
            }
            if self.shared.observers.is_any() {
                batch.iter().filter_map(|(_, key)| key.as_ref()).for_each(|key| self.notify_added(key, how));
            }
            self.shared.change(after.is_some(), |machine, now| {
                for (hash, key) in &mut batch {
                    *key = key.take().and_then(|key| match after {
                        None => machine.add(*hash, key, priority, now),
                        Some(wait) => machine.add_at(*hash, key, priority, now.after(wait), false, now),
                    });
                }
            });
        }
    }

    /// Waits for the next key. Returns `None` when the queue is shut down and empty.
    ///
    /// The future is cancel safe: a key that it could have returned is handed to another worker. Call `next` in each iteration of
    /// a loop. A future that is kept but not polled, as in a `select!` on `&mut next` with a slow branch, may have been woken for a
    /// key; that key then waits for the future, or for the next call.
    ///
    /// # Panics
    /// If keys are delayed and the future is polled outside of a tokio runtime with timers, unless the queue has another clock.
    /// [`next_blocking`](Self::next_blocking) needs no runtime.
    pub fn next(&self) -> NextItem<'_, K> {
        NextItem::new(&self.shared)
    }

    /// Blocks the thread until the next key. Needs no runtime.
    ///
    /// A thread that finds no key spins briefly before it blocks, one thread per queue at a time.
    pub fn next_blocking(&self) -> Option<Item<K>> {
        next_blocking(&self.shared)
    }

    /// Returns the next key, if one is ready.
    pub fn try_next(&self) -> Option<Item<K>> {
        Some(Item::new(&self.shared, self.shared.try_take()?))
    }

    /// Returns the number of ready keys. Delayed keys and keys in flight are not counted, even if they were added again.
    pub fn len(&self) -> usize {
        self.stats().ready
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns counts and ages of the keys in the queue.
    pub fn stats(&self) -> QueueStats {
        // Keys that are due count as ready, and expired failures do not count.
        while self.shared.change(false, |machine, now| machine.advance(now) | machine.expire_idle(now)) {}
        let keeps_time = self.shared.metrics.is_some();
        self.shared.look(|state| {
            let machine = &state.machine;
            let now = self.shared.now();
            let age = |time: Time| now.since(time);
            QueueStats {
                ready: machine.len(),
                depth: machine.depth(),
                in_flight: machine.processing(),
                delayed: machine.waiting(),
                suspended: machine.held(),
                failing: machine.failing(),
                adds: machine.adds(),
                retries: machine.retries(),
                oldest_ready: machine.oldest().map(age).filter(|_| keeps_time),
                longest_running: machine.runs().min().map(age).filter(|_| keeps_time),
            }
        })
    }

    /// Returns the number of consecutive failures of a key, up to 4,095.
    pub fn failures(&self, key: &K) -> u32 {
        let hash = self.shared.hash(key);
        self.shared.look(|state| state.machine.failures(hash, key, self.shared.now()))
    }

    /// Clears the failures of a key. The key stays queued or delayed.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
        let hash = self.shared.hash(key);
        self.shared.change(false, |machine, _| machine.forget(hash, key));
    }

    /// Shuts the queue down without waiting.
    ///
    /// Adds are ignored from now on, and delayed keys are dropped. Ready keys are still handed out, and so are keys that were
    /// added again while in flight; then [`next`](Self::next) returns `None`. A pending [`drain`](Self::drain) returns
    /// [`DrainError::ShutDown`](crate::DrainError::ShutDown). A second call has no effect.
    pub fn shut_down(&self) {
        self.end(QueueMachine::shut_down);
    }

    /// Shuts the queue down and waits until all queued keys and all keys in flight are finished. Adds are ignored from now on.
    ///
    /// Draining starts at the call, before the returned [`Drain`] is awaited. Any number of callers can wait. If one of them
    /// discards delayed keys, they are discarded for all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use evenkeel_queue::{DrainDelayed, WorkQueue};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let queue = WorkQueue::<String>::new();
    /// queue.drain(DrainDelayed::Discard).within(Duration::from_secs(30)).await.expect("workers finish in time");
    /// # }
    /// ```
    pub fn drain(&self, delayed: DrainDelayed) -> Drain<K> {
        self.end(|machine| machine.drain(delayed == DrainDelayed::Flush));
        Drain::new(self.shared.clone())
    }

    fn end(&self, end: impl FnOnce(&mut QueueMachine<K>)) {
        self.shared.observers.shut_down();
        self.shared.change(false, |machine, now| {
            // Keys that are due are ready, even if all workers were busy since.
            while machine.is_running() && machine.advance(now) {}
            end(machine);
        });
    }

    /// Registers an observer of key transitions. Dropping the guard unregisters it.
    ///
    /// A queue without observers pays one atomic load for each add, hand-out and verdict.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use evenkeel_queue::{Observer, ItemOutcome, KeyEvent, WorkQueue};
    ///
    /// struct Successes(mpsc::SyncSender<String>);
    ///
    /// impl Observer<String> for Successes {
    ///     fn event(&self, key: &String, event: KeyEvent) {
    ///         if let KeyEvent::Finished { outcome: ItemOutcome::Succeeded, .. } = event {
    ///             let _ = self.0.try_send(key.clone());
    ///         }
    ///     }
    /// }
    ///
    /// let queue = WorkQueue::new();
    /// let (sender, receiver) = mpsc::sync_channel(100);
    /// let _guard = queue.observe(Successes(sender));
    /// queue.add("default/a".to_owned());
    /// queue.try_next().unwrap().forget();
    /// assert_eq!(receiver.recv().unwrap(), "default/a");
    /// ```
    pub fn observe(&self, observer: impl Observer<K>) -> ObserverGuard {
        self.shared.observers.register(Box::new(observer))
    }

    fn notify_added(&self, key: &K, how: AddOptions) {
        let AddOptions { priority, after, rate_limited } = how;
        self.shared.observers.event(key, || KeyEvent::Added { priority, after, rate_limited });
    }

    /// Returns a handle that does not keep the queue alive.
    pub fn downgrade(&self) -> WeakQueue<K> {
        WeakQueue { shared: Arc::downgrade(&self.shared) }
    }

    /// Returns whether [`shut_down`](Self::shut_down) or [`drain`](Self::drain) was called.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.look(|state| !state.machine.is_running())
    }
}

/// A handle of a queue that does not keep it alive: see [`WorkQueue::downgrade`].
///
/// For producers that never take keys, such as event handlers.
pub struct WeakQueue<K: Key> {
    shared: Weak<Shared<K>>,
}

impl<K: Key> WeakQueue<K> {
    /// Returns the queue, if it is still alive.
    ///
    /// ```
    /// use evenkeel_queue::WorkQueue;
    ///
    /// let queue = WorkQueue::<String>::new();
    /// let weak = queue.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(queue);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<WorkQueue<K>> {
        Some(WorkQueue { shared: self.shared.upgrade()? })
    }

    /// Returns whether both are handles of the same queue.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.shared.ptr_eq(&other.shared)
    }
}

impl<K: Key> Clone for WeakQueue<K> {
    fn clone(&self) -> Self {
        WeakQueue { shared: self.shared.clone() }
    }
}

impl<K: Key> fmt::Debug for WeakQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakQueue").finish_non_exhaustive()
    }
}

impl<K: Key> From<Shared<K>> for WorkQueue<K> {
    fn from(shared: Shared<K>) -> Self {
        WorkQueue { shared: Arc::new(shared) }
    }
}

impl<K: Key> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue { shared: self.shared.clone() }
    }
}

impl<K: Key> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("name", &self.name())
            .field("observers", &self.shared.observers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
