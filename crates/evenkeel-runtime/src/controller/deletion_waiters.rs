//! [`DeletionWaiters`]: waits until an object is deleted from a store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_cache::Event;
use evenkeel_core::ObjectKey;
use tokio::sync::oneshot;

/// The waits for deletions from the store of one informer.
///
/// The store is written before handlers are notified. A waiter that registers first and then reads the store misses no
/// deletion: either the store does not contain the object any more, or a notification follows. A handler may lag behind, and its
/// notification may be about an earlier object of the same name, so a notified waiter reads the store again.
#[derive(Debug, Default)]
pub(super) struct DeletionWaiters(Mutex<WaiterTable>);

#[derive(Debug, Default)]
struct WaiterTable {
    by_key: HashMap<ObjectKey, Vec<DeletionWaiter>>,
    next_id: u64,
}

#[derive(Debug)]
struct DeletionWaiter {
    id: u64,
    uid: String,
    notify: oneshot::Sender<()>,
}

impl DeletionWaiters {
    fn lock(&self) -> MutexGuard<'_, WaiterTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the waiters that an event of the handler concerns.
    pub(super) fn notify<K>(&self, event: &Event<K>) {
        let mut table = self.lock();
        let Some(waiters) = table.by_key.get_mut(event.key()) else { return };
        let present = match event {
            Event::Add { object, .. } | Event::Update { new: object, .. } => Some(object.uid()),
            Event::Delete(_) => None,
        };
        let notified: Vec<_> = waiters.extract_if(.., |waiter| present != Some(&waiter.uid)).collect();
        if waiters.is_empty() {
            table.by_key.remove(event.key());
        }
        drop(table);
        for waiter in notified {
            // The receiver is dropped if the wait was cancelled.
            let _ = waiter.notify.send(());
        }
    }

    /// Waits until the object is deleted, or replaced by another object of the same key. `is_present` reads the store.
    pub(super) async fn deleted(&self, key: &ObjectKey, uid: &str, is_present: impl Fn() -> bool) {
        loop {
            let (notify, notified) = oneshot::channel();
            let _registered = self.register(key, uid, notify);
            if !is_present() {
                return;
            }
            let _ = notified.await;
        }
    }

    fn register<'a>(&'a self, key: &'a ObjectKey, uid: &str, notify: oneshot::Sender<()>) -> WaiterGuard<'a> {
        let mut table = self.lock();
        let id = table.next_id;
        table.next_id += 1;
        table.by_key.entry(key.clone()).or_default().push(DeletionWaiter { id, uid: uid.to_owned(), notify });
        WaiterGuard { waiters: self, key, id }
    }
}

/// Removes a waiter when its wait ends.
struct WaiterGuard<'a> {
    waiters: &'a DeletionWaiters,
    key: &'a ObjectKey,
    id: u64,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut table = self.waiters.lock();
        if let Some(waiters) = table.by_key.get_mut(self.key) {
            waiters.retain(|waiter| waiter.id != self.id);
            if waiters.is_empty() {
                table.by_key.remove(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
