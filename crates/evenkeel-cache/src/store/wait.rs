//! Those who wait for the store to reach a version.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::ResourceVersion;
use tokio::sync::oneshot;

/// The informer has stopped before its store has reached the version that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped; its store will not reach resource version {version}")]
pub struct StoreStopped {
    /// The version that was waited for.
    pub version: ResourceVersion,
}

#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Waiting>);

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
    /// Dropped without a word when there is nothing more to wait for.
    reached: oneshot::Sender<()>,
}

/// Whether a store at this version has what was written with the other.
fn covers(present: &ResourceVersion, wanted: &ResourceVersion) -> bool {
    present == wanted || present.is_newer_than(wanted)
}

impl Waiters {
    /// Waits until `present` covers the version. Whoever changes what `present` says calls [`reached`](Self::reached)
    /// afterwards; both look under the lock, so nobody is missed.
    pub(super) async fn wait(
        &self,
        version: &ResourceVersion,
        present: impl FnOnce() -> ResourceVersion,
    ) -> Result<(), StoreStopped> {
        if matches!(version.as_str(), "" | "0") {
            return Ok(());
        }
        let (entry, told) = {
            let mut waiting = self.lock();
            if covers(&present(), version) {
                return Ok(());
            }
            if waiting.stopped {
                return Err(StoreStopped { version: version.clone() });
            }
            let (reached, told) = oneshot::channel();
            let id = waiting.next;
            waiting.next += 1;
            waiting.list.push(Waiter { id, version: version.clone(), reached });
            (Entry { waiters: self, id }, told)
        };
        let told = told.await;
        drop(entry);
        told.map_err(|_| StoreStopped { version: version.clone() })
    }

    /// The store has come to another version, and has passed these on the way, which cannot be compared.
    pub(super) fn reached(&self, present: impl FnOnce() -> ResourceVersion, passed: &[ResourceVersion]) {
        let mut waiting = self.lock();
        if waiting.list.is_empty() {
            return;
        }
        let present = present();
        let done = |waiter: &mut Waiter| covers(&present, &waiter.version) || passed.contains(&waiter.version);
        let done: Vec<Waiter> = waiting.list.extract_if(.., done).collect();
        drop(waiting);
        for waiter in done {
            // Nobody listens any more if the future was dropped meanwhile.
            let _ = waiter.reached.send(());
        }
    }

    /// Nothing more will come.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes itself off the list when the future is dropped.
struct Entry<'a> {
    waiters: &'a Waiters,
    id: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.waiters.lock().list.retain(|waiter| waiter.id != self.id);
    }
}
