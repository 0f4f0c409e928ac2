//! The handle of a queue.

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
/// # What holds
/// - A key is in the queue once, however often it is added before it is handed out.
/// - No two workers have the same key at the same time. A key that is added while a worker has it is handed out once more when
///   that worker is done.
/// - Keys are handed out in the order in which they were added, unless they have priorities or the queue was built otherwise.
///   A key that is handed out again goes to the end.
/// - A key that is added for later is handed out at that time or after it, never before. If it is added for later twice, the
///   earlier time holds. Keys of the same time come in the order in which they were added.
/// - Adding never waits. No key is ever lost but by [`shut_down`](Self::shut_down), or by a
///   [`drain`](Self::drain) that discards it while it waits for its time.
/// - No task runs for the queue, except while workers have keys, to report for how long. Workers that wait keep the time.
///
/// # What does not
/// The number of keys is not limited: each is there once, so it is at most the number of objects. Nothing is promised about
/// which of several waiting workers gets a key.
///
/// Handles are cheap to clone and all stand for the same queue. It lives as long as one of them, or an [`Item`]. Whoever only adds
/// keys may have a [`WeakQueue`], which does not keep it alive.
///
/// ```
/// use evenkeel_queue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let sync = |key: &String| if key.starts_with("bad") { Err("no such thing") } else { Ok(()) };
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
    shared: Arc<Shared<K>>,
}

/// How keys are added: see [`WorkQueue::add_all`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "this only says how keys are added"]
pub struct AddOptions {
    priority: i32,
    after: Option<Duration>,
    rate_limited: bool,
}

/// The priority of keys that can wait: those of the first list, and of a resync.
pub const LOW_PRIORITY: i32 = -100;

impl AddOptions {
    /// Now, with the default priority, which is 0.
    pub const fn new() -> Self {
        AddOptions { priority: 0, after: None, rate_limited: false }
    }

    /// With this priority; higher is sooner. Of several priorities that a key was added with, the highest holds.
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// After so long.
    pub const fn after(mut self, wait: Duration) -> Self {
        self.after = Some(wait);
        self
    }

    /// After the backoff for one more failure; if [`after`](Self::after) is sooner, then.
    pub const fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

/// What becomes of keys that wait for their time when a queue is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainDelayed {
    /// They are dropped.
    Discard,
    /// They are handed out at once, also those that were to wait for ever.
    Flush,
}

/// What is in a queue: see [`WorkQueue::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys that could be handed out now.
    pub ready: usize,
    /// Keys that need processing: those that are ready, and those that were added again while a worker has them.
    pub depth: usize,
    /// Keys that workers have.
    pub in_flight: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys that have failed and not succeeded since.
    pub failing: usize,
    /// Times that a key came to need processing.
    pub adds: u64,
    /// Times that a key was added for later.
    pub retries: u64,
    /// How long the key has been ready that has been so for longest. None if there is none, if the queue has no name, or if it
    /// has a [`ReadyOrder`](crate::ReadyOrder). If tenants take turns, only the key is looked at that is next in each priority.
    pub oldest_ready: Option<Duration>,
    /// How long the slowest worker has had its key. None if there is none, or if the queue has no name.
    pub longest_running: Option<Duration>,
}

/// So many keys are added before others get a turn with the queue.
const BATCH: usize = 256;

impl<K: Key> WorkQueue<K> {
    /// A queue without a name, and so without metrics.
    #[expect(clippy::new_without_default, reason = "a queue is made to be shared, not as a part of something")]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue that reports its metrics by this name, with a backoff for each key of 5 ms to 1,000 s.
    pub fn rate_limited(name: impl Into<String>) -> Self {
        Self::builder().name(name).build()
    }

    /// Begins a queue of which more is to be said.
    pub fn builder() -> QueueBuilder<K> {
        QueueBuilder::new()
    }

    /// What the queue is called, if it has a name.
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Adds a key, to be handed out as soon as a worker is free.
    ///
    /// A key that is in the queue stays where it is. A queue that is shutting down takes no keys.
    pub fn add(&self, key: K) {
        self.tell_added(&key, AddOptions::new());
        let hash = self.shared.hash(&key);
        _ = self.shared.change(false, |machine, now| machine.add(hash, key, 0, now));
    }

    /// Adds a key, to be handed out after so long.
    ///
    /// The time is exact to 20 µs: it is never early. [`Duration::MAX`] is for ever: a key can wait until the queue is 44 years
    /// old.
    ///
    /// If the key is waiting already, the earlier time holds. What [`add`](Self::add) means for a key that is waiting was
    /// chosen by [`QueueBuilder::pending`].
    pub fn add_after(&self, key: K, wait: Duration) {
        self.tell_added(&key, AddOptions::new().after(wait));
        let hash = self.shared.hash(&key);
        _ = self.shared.change(true, |machine, now| machine.add_at(hash, key, 0, now.after(wait), false, now));
    }

    /// Adds a key that has failed, to be handed out after its backoff.
    ///
    /// For failures outside of a worker. A worker has [`Item::retry`].
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Adds a key in a way of which more is to be said.
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
            let Some(BackoffWait { wait, panic, .. }) = self.shared.backoff(&key, fail) else { return };
            let wait = after.filter(|after| !after.is_zero()).map_or(wait, |after| wait.min(after));
            self.tell_added(&key, how.after(wait));
            self.shared.change(true, |machine, now| machine.add_at(hash, key, priority, now.after(wait), true, now));
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            return;
        }
        self.tell_added(&key, how);
        match after {
            None => self.shared.change(false, |machine, now| machine.add(hash, key, priority, now)),
            Some(wait) => self
                .shared
                .change(true, |machine, now| machine.add_at(hash, key, priority, now.after(wait), false, now)),
        };
    }

    /// Adds keys in one go, in a way that is said once for all of them.
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
            // Each failure belongs to the add that follows it.
            return keys.into_iter().for_each(|key| self.add_with(key, how));
        }
        let AddOptions { priority, after, .. } = how;
        let mut keys = keys.into_iter().map(|key| (self.shared.hash(&key), Some(key)));
        loop {
            // The iterator is asked without the lock, because it may be anything. And so are keys dropped that are not needed.
            let mut batch: Vec<_> = keys.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return;
            }
            if self.shared.observers.is_any() {
                batch.iter().filter_map(|(_, key)| key.as_ref()).for_each(|key| self.tell_added(key, how));
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

    /// The next key. `None` if the queue is shutting down and there will be no more.
    ///
    /// Dropping the future loses nothing: a key that it could have got goes to somebody else. So it is best made anew for each
    /// turn of a loop. A future that is kept and not polled, as in a `select!` on `&mut next` with another branch that takes long, may
    /// be the one that was woken for a key. That key then waits for it, or for the next worker who asks.
    ///
    /// # Panics
    /// When keys wait for their time, and this is polled outside of a runtime of tokio with timers, unless the queue was built with
    /// another clock. [`next_blocking`](Self::next_blocking) needs none.
    pub fn next(&self) -> NextItem<'_, K> {
        NextItem::new(&self.shared)
    }

    /// The next key, for a worker that is a thread. No runtime is needed.
    pub fn next_blocking(&self) -> Option<Item<K>> {
        next_blocking(&self.shared)
    }

    /// The next key, if there is one now.
    pub fn try_next(&self) -> Option<Item<K>> {
        Some(Item::new(&self.shared, self.shared.try_take()?))
    }

    /// How many keys could be handed out now. Those that wait for their time, and those that workers have, are not counted, even
    /// if they were added again.
    pub fn len(&self) -> usize {
        self.stats().ready
    }

    /// Whether no key could be handed out now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in the queue.
    pub fn stats(&self) -> QueueStats {
        // Those count as ready that have become due and that nobody has asked for.
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
                failing: machine.failing(),
                adds: machine.adds(),
                retries: machine.retries(),
                oldest_ready: machine.oldest().map(age).filter(|_| keeps_time),
                longest_running: machine.runs().min().map(age).filter(|_| keeps_time),
            }
        })
    }

    /// How often the key has failed in a row, up to 4,095.
    pub fn failures(&self, key: &K) -> u32 {
        let hash = self.shared.hash(key);
        self.shared.look(|state| state.machine.failures(hash, key, self.shared.now()))
    }

    /// Forgets the failures of a key. If it is in the queue, or waits, it stays there.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
        let hash = self.shared.hash(key);
        self.shared.change(false, |machine, _| machine.forget(hash, key));
    }

    /// Ends the queue without waiting for anything.
    ///
    /// From now on nothing can be added, and keys that wait for their time are dropped. Keys that are ready are still handed
    /// out, and so are those that were added again while a worker has them; then workers are told that there are no more.
    /// Whoever waits for a [`drain`](Self::drain) waits no longer. A second call changes nothing.
    pub fn shut_down(&self) {
        self.shared.observers.shut_down();
        self.shared.change(false, |machine, _| machine.shut_down());
    }

    /// Ends the queue and waits until everything is done: nothing can be added any more, and whatever is in the queue or with
    /// a worker is waited for.
    ///
    /// It begins at the call. Any number of callers can wait. If one of them discards keys that wait for their time, they are
    /// discarded, whatever was said before.
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
        self.shared.observers.shut_down();
        self.shared.change(false, |machine, _| machine.drain(delayed == DrainDelayed::Flush));
        Drain::new(self.shared.clone())
    }

    /// Has somebody told what becomes of each key, from now until what this answers with is dropped. There may be several. A
    /// queue that nobody observes pays one load for it at each add, hand-out and end.
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
    /// let (told, heard) = mpsc::sync_channel(100);
    /// let _observation = queue.observe(Successes(told));
    /// queue.add("default/a".to_owned());
    /// queue.try_next().unwrap().forget();
    /// assert_eq!(heard.recv().unwrap(), "default/a");
    /// ```
    pub fn observe(&self, observer: impl Observer<K>) -> ObserverGuard {
        self.shared.observers.register(Box::new(observer))
    }

    fn tell_added(&self, key: &K, how: AddOptions) {
        let AddOptions { priority, after, rate_limited } = how;
        self.shared.observers.event(key, || KeyEvent::Added { priority, after, rate_limited });
    }

    /// A handle that does not keep the queue alive.
    pub fn downgrade(&self) -> WeakQueue<K> {
        WeakQueue { shared: Arc::downgrade(&self.shared) }
    }

    /// Whether [`shut_down`](Self::shut_down) or [`drain`](Self::drain) has been called.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.look(|state| !state.machine.is_running())
    }
}

/// A handle of a queue that does not keep it alive: see [`WorkQueue::downgrade`].
///
/// For those who add keys and never take any, such as handlers. When all others are gone, nobody could take what they add.
pub struct WeakQueue<K: Key> {
    shared: Weak<Shared<K>>,
}

impl<K: Key> WeakQueue<K> {
    /// The queue, if somebody still has it.
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

    /// Whether both are handles of the same queue.
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
