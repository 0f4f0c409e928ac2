//! Waiting until the store reaches a resource version.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::ResourceVersion;
use tokio::sync::oneshot;

use super::scopes::StoreVersions;

/// The informer stopped before its store reached the awaited version, or the awaited namespace is not in its set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer stopped, or the namespace is not in its set; the store will not reach resource version {version}")]
pub struct StoreStopped {
    /// The awaited version.
    pub version: ResourceVersion,
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: Mutex<Waiting>,
    /// The waiters in the list, and those about to enter it. Writers without waiters take no lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    list: Vec<Waiter>,
    next: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    version: ResourceVersion,
    /// The namespace whose version is awaited; `None` for that of the whole store.
    namespace: Option<Box<str>>,
    /// Dropped without a value when the informer stops.
    reached: oneshot::Sender<()>,
}

impl Waiters {
    /// Waits until `present` covers the version. A writer that changes `present` calls [`reached`](Self::reached) afterwards; both
    /// check under the lock, so no waiter is missed.
    ///
    /// `present` must take the lock under which writers change the version. A waiter is counted before it reads the version: either
    /// it reads the writer's version, or the writer, which takes that lock later, reads its count.
    ///
    /// `is_possible` returns whether the store can reach versions of this namespace. If that changes, [`abandon`](Self::abandon)
    /// must be called afterwards.
    pub(super) async fn wait(
        &self,
        version: &ResourceVersion,
        namespace: Option<&str>,
        is_possible: impl FnOnce() -> bool,
        present: impl FnOnce() -> StoreVersions,
    ) -> Result<(), StoreStopped> {
        if matches!(version.as_str(), "" | "0") {
            return Ok(());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let counted = CountedWaiter(self);
        let (entry, notified) = {
            let mut waiting = self.lock();
            if present().covers(namespace, version) {
                return Ok(());
            }
            if waiting.stopped || !is_possible() {
                return Err(StoreStopped { version: version.clone() });
            }
            let (reached, notified) = oneshot::channel();
            let id = waiting.next;
            waiting.next += 1;
            waiting.list.push(Waiter { id, version: version.clone(), namespace: namespace.map(Into::into), reached });
            (WaiterEntry { waiters: self, id }, notified)
        };
        let notified = notified.await;
        drop((entry, counted));
        notified.map_err(|_| StoreStopped { version: version.clone() })
    }

    /// Wakes the waiters of the current version, and those of the versions in `passed`, which cannot be compared.
    pub(super) fn reached(&self, present: impl FnOnce() -> StoreVersions, passed: &[ResourceVersion]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiting = self.lock();
        let present = present();
        let done = |waiter: &mut Waiter| {
            present.covers(waiter.namespace.as_deref(), &waiter.version) || passed.contains(&waiter.version)
        };
        let done: Vec<Waiter> = waiting.list.extract_if(.., done).collect();
        drop(waiting);
        for waiter in done {
            // The receiver is dropped if the future was.
            let _ = waiter.reached.send(());
        }
    }

    /// Fails the waiters for namespaces whose versions the store will not reach.
    pub(super) fn abandon(&self, is_possible: impl Fn(&str) -> bool) {
        let mut waiting = self.lock();
        let is_lost =
            |waiter: &mut Waiter| waiter.namespace.as_deref().is_some_and(|namespace| !is_possible(namespace));
        let lost: Vec<Waiter> = waiting.list.extract_if(.., is_lost).collect();
        drop(waiting);
        drop(lost);
    }

    /// Fails all waiters, now and later: nothing more will be written.
    pub(super) fn stop(&self) {
        let mut waiting = self.lock();
        waiting.stopped = true;
        let list = std::mem::take(&mut waiting.list);
        drop(waiting);
        drop(list);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().list.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the count of a waiter.
struct CountedWaiter<'a>(&'a Waiters);

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Removes a waiter when its future is dropped.
struct WaiterEntry<'a> {
    waiters: &'a Waiters,
    id: u64,
}

impl Drop for WaiterEntry<'_> {
    fn drop(&mut self) {
        self.waiters.lock().list.retain(|waiter| waiter.id != self.id);
    }
}
