//! [`DeletionWaiters`]: waiting until an object is gone from a store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_cache::Event;
use evenkeel_core::ObjectKey;
use tokio::sync::oneshot;

/// Who waits until which object is gone from the store of one informer.
///
/// The store is written before handlers are told. So whoever first says that it waits, and then looks into the store, misses
/// nothing: what is not gone yet will be told. But a handler may be behind, and what it is told may be about an object that
/// was there before, under the same name. So whoever is told looks again.
#[derive(Debug, Default)]
pub(super) struct DeletionWaiters(Mutex<WaiterTable>);

#[derive(Debug, Default)]
struct WaiterTable {
    by_key: HashMap<ObjectKey, Vec<DeletionWaiter>>,
    next: u64,
}

#[derive(Debug)]
struct DeletionWaiter {
    id: u64,
    uid: String,
    gone: oneshot::Sender<()>,
}

impl DeletionWaiters {
    fn lock(&self) -> MutexGuard<'_, WaiterTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handler was told of this.
    pub(super) fn notify<K>(&self, event: &Event<K>) {
        let mut waiting = self.lock();
        let Some(waiters) = waiting.by_key.get_mut(event.key()) else { return };
        let present = match event {
            Event::Add { object, .. } | Event::Update { new: object, .. } => Some(object.uid()),
            Event::Delete(_) => None,
        };
        let told: Vec<_> = waiters.extract_if(.., |waiter| present != Some(&waiter.uid)).collect();
        if waiters.is_empty() {
            waiting.by_key.remove(event.key());
        }
        drop(waiting);
        for waiter in told {
            // Nobody listens any more if the wait was given up meanwhile.
            let _ = waiter.gone.send(());
        }
    }

    /// Waits until the object with this key is gone, or is another one. `is_there` looks into the store.
    pub(super) async fn deleted(&self, key: &ObjectKey, uid: &str, is_there: impl Fn() -> bool) {
        loop {
            let (gone, told) = oneshot::channel();
            let _entry = self.register(key, uid, gone);
            if !is_there() {
                return;
            }
            let _ = told.await;
        }
    }

    fn register<'a>(&'a self, key: &'a ObjectKey, uid: &str, gone: oneshot::Sender<()>) -> WaiterGuard<'a> {
        let mut waiting = self.lock();
        let id = waiting.next;
        waiting.next += 1;
        waiting.by_key.entry(key.clone()).or_default().push(DeletionWaiter { id, uid: uid.to_owned(), gone });
        WaiterGuard { deletion_waiters: self, key, id }
    }
}

/// Takes a waiter out that does not wait any more.
struct WaiterGuard<'a> {
    deletion_waiters: &'a DeletionWaiters,
    key: &'a ObjectKey,
    id: u64,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut waiting = self.deletion_waiters.lock();
        if let Some(waiters) = waiting.by_key.get_mut(self.key) {
            waiters.retain(|waiter| waiter.id != self.id);
            if waiters.is_empty() {
                waiting.by_key.remove(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
