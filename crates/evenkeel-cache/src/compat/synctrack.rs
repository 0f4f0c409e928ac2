//! Whether something has been caught up with.
//!
//! Those who process what an informer brings in their own time, in a queue of their own say, have not synced when the
//! informer has: they have synced when everything that the informer brought until then has been processed. A tracker
//! counts that. [`Lazy`] is for what is computed from everything, such as a table, and only when somebody asks.

mod lazy;

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use lazy::Lazy;

/// Tracks things by key, which may be processed by many at the same time and in any order.
///
/// It is done when the upstream has synced and all that was started by then, or is started before that is done, has
/// finished. Once done, it stays done.
///
/// ```
/// use evenkeel_cache::compat::synctrack::AsyncTracker;
///
/// let tracker = AsyncTracker::new();
/// tracker.start("default/web-0");
/// tracker.upstream_has_synced();
/// assert!(!tracker.has_synced());
/// tracker.finished(&"default/web-0");
/// assert!(tracker.has_synced());
/// ```
pub struct AsyncTracker<K> {
    state: Mutex<Outstanding<K>>,
    done: watch::Sender<bool>,
}

struct Outstanding<K> {
    keys: HashSet<K>,
    upstream: bool,
}

impl<K: Eq + Hash> AsyncTracker<K> {
    /// A tracker of nothing yet.
    pub fn new() -> Self {
        let state = Mutex::new(Outstanding { keys: HashSet::new(), upstream: false });
        AsyncTracker { state, done: watch::Sender::new(false) }
    }

    /// This is to be processed.
    pub fn start(&self, key: K) {
        let mut state = self.lock();
        if !*self.done.borrow() {
            state.keys.insert(key);
        }
    }

    /// This has been processed, if it was started at all.
    pub fn finished(&self, key: &K) {
        let mut state = self.lock();
        state.keys.remove(key);
        self.settle(&state);
    }

    /// All that the upstream brought first has been started. To be called after the last of those calls of
    /// [`start`](Self::start).
    pub fn upstream_has_synced(&self) {
        let mut state = self.lock();
        state.upstream = true;
        self.settle(&state);
    }

    /// Whether it is done.
    pub fn has_synced(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until it is done.
    pub async fn wait(&self) {
        wait(&self.done).await;
    }

    fn settle(&self, state: &Outstanding<K>) {
        if state.upstream && state.keys.is_empty() {
            self.done.send_if_modified(|done| !std::mem::replace(done, true));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outstanding<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Default for AsyncTracker<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for AsyncTracker<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTracker").field("done", &*self.done.borrow()).finish_non_exhaustive()
    }
}

async fn wait(done: &watch::Sender<bool>) {
    // The sender is borrowed, so it cannot have been dropped, and this cannot fail.
    let _ = done.subscribe().wait_for(|done| *done).await;
}

/// Tracks things without telling them apart, which costs less than [`AsyncTracker`]. Cheap to clone; clones count
/// together.
///
/// It is done when the upstream has synced and all that was started by then, or is started before that is done, has
/// finished. Once done, it stays done.
///
/// ```
/// use evenkeel_cache::compat::synctrack::SingleFileTracker;
///
/// let tracker = SingleFileTracker::new();
/// let started = tracker.start();
/// tracker.upstream_has_synced();
/// assert!(!tracker.has_synced());
/// drop(started);
/// assert!(tracker.has_synced());
/// ```
#[derive(Clone, Debug)]
pub struct SingleFileTracker {
    shared: Arc<Counter>,
}

/// Something that a [`SingleFileTracker`] waits for. It has finished when this is dropped.
#[derive(Debug)]
#[must_use = "it has finished when this is dropped"]
pub struct Started {
    shared: Arc<Counter>,
}

#[derive(Debug)]
struct Counter {
    /// How many have not finished, and [`UPSTREAM`] if the upstream has synced. One number, so that who brings it to the
    /// end is always one.
    count: AtomicU64,
    done: watch::Sender<bool>,
}

const UPSTREAM: u64 = 1 << 63;

impl SingleFileTracker {
    /// A tracker of nothing yet.
    pub fn new() -> Self {
        SingleFileTracker { shared: Arc::new(Counter { count: AtomicU64::new(0), done: watch::Sender::new(false) }) }
    }

    /// Something is to be processed.
    pub fn start(&self) -> Started {
        self.shared.count.fetch_add(1, Ordering::AcqRel);
        Started { shared: Arc::clone(&self.shared) }
    }

    /// All that the upstream brought first has been started. To be called after the last of those calls of
    /// [`start`](Self::start).
    pub fn upstream_has_synced(&self) {
        if self.shared.count.fetch_or(UPSTREAM, Ordering::AcqRel) == 0 {
            self.shared.done.send_replace(true);
        }
    }

    /// Whether it is done.
    pub fn has_synced(&self) -> bool {
        *self.shared.done.borrow()
    }

    /// Waits until it is done.
    pub async fn wait(&self) {
        wait(&self.shared.done).await;
    }
}

impl Default for SingleFileTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.shared.count.fetch_sub(1, Ordering::AcqRel) == UPSTREAM | 1 {
            self.shared.done.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests;
