//! Trackers of asynchronous processing.
//!
//! A program that processes notifications in a queue of its own has not synced when the informer has, but when it has
//! processed everything that the informer delivered until then. A tracker counts that. [`Lazy`] caches a value that is
//! computed from all objects, on demand.

mod lazy;

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use lazy::Lazy;

/// Tracks work by key, which may be processed concurrently and in any order.
///
/// It has synced when the upstream has synced and all work that was started until then has finished. Once `true`, it stays
/// `true`.
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
    /// Returns a tracker without work.
    pub fn new() -> Self {
        let state = Mutex::new(Outstanding { keys: HashSet::new(), upstream: false });
        AsyncTracker { state, done: watch::Sender::new(false) }
    }

    /// Records the start of work on this key.
    pub fn start(&self, key: K) {
        let mut state = self.lock();
        if !*self.done.borrow() {
            state.keys.insert(key);
        }
    }

    /// Records the end of work on this key. Unknown keys are ignored.
    pub fn finished(&self, key: &K) {
        let mut state = self.lock();
        state.keys.remove(key);
        self.settle(&state);
    }

    /// Records that the upstream has synced. Call it after the last [`start`](Self::start) of the initial list.
    pub fn upstream_has_synced(&self) {
        let mut state = self.lock();
        state.upstream = true;
        self.settle(&state);
    }

    /// Returns `true` once everything is processed.
    pub fn has_synced(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until everything is processed.
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
    // The sender is borrowed, so the wait does not fail.
    let _ = done.subscribe().wait_for(|done| *done).await;
}

/// Counts work without keys, which costs less than [`AsyncTracker`]. Clones share the count.
///
/// It has synced when the upstream has synced and all work that was started until then has finished. Once `true`, it stays
/// `true`.
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

/// Work that a [`SingleFileTracker`] waits for. Dropping it finishes the work.
#[derive(Debug)]
#[must_use = "it has finished when this is dropped"]
pub struct Started {
    shared: Arc<Counter>,
}

#[derive(Debug)]
struct Counter {
    /// Number of unfinished work items, and [`UPSTREAM`] if the upstream has synced. One number, so that exactly one change
    /// reaches the end.
    count: AtomicU64,
    done: watch::Sender<bool>,
}

const UPSTREAM: u64 = 1 << 63;

impl SingleFileTracker {
    /// Returns a tracker without work.
    pub fn new() -> Self {
        SingleFileTracker { shared: Arc::new(Counter { count: AtomicU64::new(0), done: watch::Sender::new(false) }) }
    }

    /// Records the start of work.
    pub fn start(&self) -> Started {
        self.shared.count.fetch_add(1, Ordering::AcqRel);
        Started { shared: Arc::clone(&self.shared) }
    }

    /// Records that the upstream has synced. Call it after the last [`start`](Self::start) of the initial list.
    pub fn upstream_has_synced(&self) {
        if self.shared.count.fetch_or(UPSTREAM, Ordering::AcqRel) == 0 {
            self.shared.done.send_replace(true);
        }
    }

    /// Returns `true` once everything is processed.
    pub fn has_synced(&self) -> bool {
        *self.shared.done.borrow()
    }

    /// Waits until everything is processed.
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
