//! From deltas to the store and to the listeners.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::core::Core;
use super::metrics::InformerMetrics;
use super::observe::{self, InformerEvent};
use super::processor::{Notifications, Recipients};
use crate::queue::{BATCH_LIMIT, Batch, Delta, DeltaQueue, KnownObjects};
use crate::reflector::{ReflectorStore, StoreError};
use crate::store::{Table, Write};
use crate::{Deleted, Event, Object};

/// What the reflector of an informer writes to: the queue, and behind it the store and the listeners.
///
/// Reflector and processor are driven by one task, so nothing is processed while something is queued, and the store is
/// written by nobody else. The store is always written before the listeners are told.
pub(super) struct ProcessLoop {
    core: Arc<Core>,
    queue: Box<dyn DeltaQueue>,
    synced: bool,
    metrics: InformerMetrics,
}

impl ProcessLoop {
    pub(super) fn new(core: Arc<Core>, queue: Box<dyn DeltaQueue>) -> Self {
        let metrics = InformerMetrics::new(&core.identity);
        ProcessLoop { core, queue, synced: false, metrics }
    }

    /// Applies everything that is queued.
    fn process(&mut self, recipients: &Recipients) {
        self.note_queued();
        if self.queue.is_empty() {
            // A list without objects may leave nothing to apply.
            self.note_synced();
            return;
        }
        while let Some(batch) = self.queue.pop(BATCH_LIMIT) {
            let (count, began) = (batch.count, Instant::now());
            self.apply(batch, recipients);
            self.queue.processed(count);
            self.note_synced();
            self.note_queued();
            self.metrics.processed(began.elapsed());
        }
        let table = &self.core.table;
        self.metrics.stored(table.version().as_str(), table.len(), table.payload_bytes());
        self.core.processor().measure(Instant::now());
    }

    fn heard(&self, change: observe::WatchChange, object: &Object) {
        self.core.observers.tell(InformerEvent::Received { change, object });
    }

    fn note_queued(&self) {
        self.core.queued.store(self.queue.len(), Ordering::Relaxed);
        self.metrics.queued(self.queue.len());
    }

    fn note_synced(&mut self) {
        if !self.synced && self.queue.has_synced() {
            self.synced = true;
            self.core.synced(Instant::now());
        }
    }

    fn apply(&mut self, batch: Batch, recipients: &Recipients) {
        let Batch { mut deltas, initial, .. } = batch;
        let mut changes = Vec::with_capacity(deltas.len());
        for delta in deltas.drain(..) {
            match delta {
                Delta::Added(object) | Delta::Updated(object) => changes.push(Change::Watched(object)),
                Delta::Replaced(object) => changes.push(Change::Listed(object)),
                Delta::Deleted(deleted) => changes.push(Change::Gone(deleted)),
                Delta::Sync(object) => changes.push(Change::Again(object)),
                Delta::ReplacedAll { objects, resource_version } => {
                    self.commit(std::mem::take(&mut changes), initial, recipients);
                    self.replace(objects, resource_version, initial);
                }
                Delta::SyncAll => {
                    self.commit(std::mem::take(&mut changes), initial, recipients);
                    self.tell_again();
                }
                Delta::Bookmark(version) => {
                    self.commit(std::mem::take(&mut changes), initial, recipients);
                    self.core.table.bookmark(&version);
                }
            }
        }
        self.commit(changes, initial, recipients);
        self.queue.recycle(deltas);
    }

    /// Writes changes to the store in one step, then tells of them.
    fn commit(&mut self, changes: Vec<Change>, initial: bool, recipients: &Recipients) {
        if changes.is_empty() {
            return;
        }
        let writes: Vec<Write> = changes.iter().filter_map(Change::write).collect();
        let mut previous = if writes.is_empty() { Vec::new() } else { self.core.table.transaction(writes) }.into_iter();
        let mut notifications = Notifications::with_capacity(changes.len());
        for change in changes {
            match change {
                Change::Again(object) => notifications.push(Event::Update { old: object.clone(), new: object }),
                Change::Watched(object) => match previous.next().flatten() {
                    Some(old) => notifications.push(Event::Update { old, new: object }),
                    None => notifications.push(Event::Add { object, initial }),
                },
                Change::Listed(object) => notifications.push_listed(previous.next().flatten(), object, initial),
                // Of what was never there nobody needs to hear that it is gone.
                Change::Gone(deleted) => {
                    if previous.next().flatten().is_some() {
                        notifications.push(Event::Delete(deleted));
                    }
                }
            }
        }
        self.tell(notifications, recipients);
    }

    /// Puts the objects of a list in the place of what is there, in one step, then tells of the difference.
    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion, initial: bool) {
        let replaced = self.core.table.replace(&objects, version);
        let mut notifications = Notifications::with_capacity(replaced.gone.len() + objects.len());
        for gone in replaced.gone {
            notifications.push(Event::Delete(Deleted::Missed { key: gone.key().clone(), last_known: Some(gone) }));
        }
        for (object, previous) in objects.into_iter().zip(replaced.previous) {
            notifications.push_listed(previous, object, initial);
        }
        self.tell(notifications, &Recipients::All);
    }

    /// Tells those who are due for a resync of everything that is in the store.
    fn tell_again(&mut self) {
        let (_, objects) = self.core.table.commits_and_objects();
        let mut notifications = Notifications::with_capacity(objects.len());
        for object in objects {
            notifications.push(Event::Update { old: object.clone(), new: object });
        }
        self.tell(notifications, &Recipients::Due);
    }

    fn tell(&self, notifications: Notifications, recipients: &Recipients) {
        if !notifications.is_empty() {
            if self.core.observers.is_any() {
                let is_resync = matches!(recipients, Recipients::Due);
                for event in notifications.events() {
                    self.core.observers.tell(InformerEvent::Applied { event, is_resync });
                }
            }
            // Nobody else commits, so this is what the notifications are about.
            let commit = self.core.table.commits();
            self.core.processor().tell(notifications, commit, recipients, Instant::now());
        }
    }
}

/// What a delta means for the store and the listeners.
enum Change {
    Watched(Object),
    Listed(Object),
    Again(Object),
    Gone(Deleted<evenkeel_core::Untyped>),
}

impl Change {
    fn write(&self) -> Option<Write> {
        match self {
            Change::Watched(object) | Change::Listed(object) => Some(Write::Put(object.clone())),
            Change::Gone(deleted) => Some(Write::Remove(deleted.clone())),
            Change::Again(_) => None,
        }
    }
}

impl ReflectorStore for ProcessLoop {
    fn add(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::WatchChange::Added, &object);
        self.queue.add(object);
        Ok(())
    }

    fn update(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::WatchChange::Modified, &object);
        self.queue.update(object);
        Ok(())
    }

    fn delete(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::WatchChange::Deleted, &object);
        self.queue.delete(object.into(), &*self.core.table);
        Ok(())
    }

    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion) -> Result<(), StoreError> {
        self.core.observers.tell(InformerEvent::Listed { objects: &objects, version: &version });
        self.queue.replace(objects, version, &*self.core.table);
        Ok(())
    }

    fn resync(&mut self, now: Instant) -> Result<(), StoreError> {
        self.process(&Recipients::All);
        if self.core.processor().look(now) {
            self.queue.resync(&*self.core.table);
            self.process(&Recipients::Due);
        }
        Ok(())
    }

    fn poll_resync_period(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        self.core.processor().poll_check_period(context)
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.core.observers.tell(InformerEvent::Bookmark { version });
        self.queue.bookmark(version.clone());
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.process(&Recipients::All);
        Ok(())
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.core.table.get(key.as_str())
    }
}

impl KnownObjects for Table {
    fn get(&self, key: &ObjectKey) -> Option<Object> {
        Table::get(self, key.as_str())
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Table::keys(self)
    }
}
