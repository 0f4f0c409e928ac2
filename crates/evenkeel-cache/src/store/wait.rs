//! Waiting until the store reaches a resource version.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::ResourceVersion;
use tokio::sync::oneshot;

/// The informer stopped before its store reached the awaited version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer stopped; its store will not reach resource version {version}")]
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
    /// Dropped without a value when the informer stops.
    reached: oneshot::Sender<()>,
}

/// Returns whether a store at version `present` includes the write with version `wanted`.
fn covers(present: &ResourceVersion, wanted: &ResourceVersion) -> bool {
    present == wanted || present.is_newer_than(wanted)
}

impl Waiters {
    /// Waits until `present` covers the version. A writer that changes `present` calls [`reached`](Self::reached) afterwards; both
    /// check under the lock, so no waiter is missed.
    ///
    /// `present` must take the lock under which writers change the version. A waiter is counted before it reads the version: either
    /// it reads the writer's version, or the writer, which takes that lock later, reads its count.
    pub(super) async fn wait(
        &self,
        version: &ResourceVersion,
        present: impl FnOnce() -> ResourceVersion,
    ) -> Result<(), StoreStopped> {
        if matches!(version.as_str(), "" | "0") {
            return Ok(());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let counted = CountedWaiter(self);
        let (entry, notified) = {
            let mut waiting = self.lock();
            if covers(&present(), version) {
                return Ok(());
            }
            if waiting.stopped {
                return Err(StoreStopped { version: version.clone() });
            }
            let (reached, notified) = oneshot::channel();
            let id = waiting.next;
            waiting.next += 1;
            waiting.list.push(Waiter { id, version: version.clone(), reached });
            (WaiterEntry { waiters: self, id }, notified)
        };
        let notified = notified.await;
        drop((entry, counted));
        notified.map_err(|_| StoreStopped { version: version.clone() })
    }

    /// Wakes the waiters of the current version, and those of the versions in `passed`, which cannot be compared.
    pub(super) fn reached(&self, present: impl FnOnce() -> ResourceVersion, passed: &[ResourceVersion]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiting = self.lock();
        let present = present();
        let done = |waiter: &mut Waiter| covers(&present, &waiter.version) || passed.contains(&waiter.version);
        let done: Vec<Waiter> = waiting.list.extract_if(.., done).collect();
        drop(waiting);
        for waiter in done {
            // The receiver is dropped if the future was.
            let _ = waiter.reached.send(());
        }
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
