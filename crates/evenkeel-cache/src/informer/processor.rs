//! From deltas to the store and to the listeners.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::board::{Audience, News};
use super::core::Core;
use super::metrics::InformerMetrics;
use super::observe::{self, Step};
use crate::queue::{BATCH_LIMIT, Batch, Delta, DeltaQueue, KnownObjects};
use crate::reflector::{ReflectorStore, StoreError};
use crate::store::{Table, Write};
use crate::{Deleted, Event, Object};

/// What the reflector of an informer writes to: the queue, and behind it the store and the listeners.
///
/// Reflector and processor are driven by one task, so nothing is processed while something is queued, and the store is
/// written by nobody else. The store is always written before the listeners are told.
pub(super) struct Processor {
    core: Arc<Core>,
    queue: Box<dyn DeltaQueue>,
    synced: bool,
    metrics: InformerMetrics,
}

impl Processor {
    pub(super) fn new(core: Arc<Core>, queue: Box<dyn DeltaQueue>) -> Self {
        let metrics = InformerMetrics::new(&core.identity);
        Processor { core, queue, synced: false, metrics }
    }

    /// Applies everything that is queued.
    fn process(&mut self, audience: &Audience) {
        self.note_queued();
        if self.queue.is_empty() {
            // A list without objects may leave nothing to apply.
            self.note_synced();
            return;
        }
        while let Some(batch) = self.queue.pop(BATCH_LIMIT) {
            let (count, began) = (batch.count, Instant::now());
            self.apply(batch, audience);
            self.queue.processed(count);
            self.note_synced();
            self.note_queued();
            self.metrics.processed(began.elapsed());
        }
        let table = &self.core.table;
        self.metrics.stored(table.version().as_str(), table.len(), table.payload_bytes());
        self.core.board().measure(Instant::now());
    }

    fn heard(&self, change: observe::Change, object: &Object) {
        self.core.observers.tell(Step::Heard { change, object });
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

    fn apply(&mut self, batch: Batch, audience: &Audience) {
        let Batch { mut deltas, initial, .. } = batch;
        let mut changes = Vec::with_capacity(deltas.len());
        for delta in deltas.drain(..) {
            match delta {
                Delta::Added(object) | Delta::Updated(object) => changes.push(Change::Watched(object)),
                Delta::Replaced(object) => changes.push(Change::Listed(object)),
                Delta::Deleted(deleted) => changes.push(Change::Gone(deleted)),
                Delta::Sync(object) => changes.push(Change::Again(object)),
                Delta::ReplacedAll { objects, resource_version } => {
                    self.commit(std::mem::take(&mut changes), initial, audience);
                    self.replace(objects, resource_version, initial);
                }
                Delta::SyncAll => {
                    self.commit(std::mem::take(&mut changes), initial, audience);
                    self.tell_again();
                }
                Delta::Bookmark(version) => {
                    self.commit(std::mem::take(&mut changes), initial, audience);
                    self.core.table.bookmark(&version);
                }
            }
        }
        self.commit(changes, initial, audience);
        self.queue.recycle(deltas);
    }

    /// Writes changes to the store in one step, then tells of them.
    fn commit(&mut self, changes: Vec<Change>, initial: bool, audience: &Audience) {
        if changes.is_empty() {
            return;
        }
        let writes: Vec<Write> = changes.iter().filter_map(Change::write).collect();
        let mut previous = if writes.is_empty() { Vec::new() } else { self.core.table.transaction(writes) }.into_iter();
        let mut news = News::with_capacity(changes.len());
        for change in changes {
            match change {
                Change::Again(object) => news.push(Event::Update { old: object.clone(), new: object }),
                Change::Watched(object) => match previous.next().flatten() {
                    Some(old) => news.push(Event::Update { old, new: object }),
                    None => news.push(Event::Add { object, initial }),
                },
                Change::Listed(object) => news.push_listed(previous.next().flatten(), object, initial),
                // Of what was never there nobody needs to hear that it is gone.
                Change::Gone(deleted) => {
                    if previous.next().flatten().is_some() {
                        news.push(Event::Delete(deleted));
                    }
                }
            }
        }
        self.tell(news, audience);
    }

    /// Puts the objects of a list in the place of what is there, in one step, then tells of the difference.
    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion, initial: bool) {
        let replaced = self.core.table.replace(&objects, version);
        let mut news = News::with_capacity(replaced.gone.len() + objects.len());
        for gone in replaced.gone {
            news.push(Event::Delete(Deleted::Missed { key: gone.key().clone(), last_known: Some(gone) }));
        }
        for (object, previous) in objects.into_iter().zip(replaced.previous) {
            news.push_listed(previous, object, initial);
        }
        self.tell(news, &Audience::All);
    }

    /// Tells those who are due for a resync of everything that is in the store.
    fn tell_again(&mut self) {
        let (_, objects) = self.core.table.commits_and_objects();
        let mut news = News::with_capacity(objects.len());
        for object in objects {
            news.push(Event::Update { old: object.clone(), new: object });
        }
        self.tell(news, &Audience::Due);
    }

    fn tell(&self, news: News, audience: &Audience) {
        if !news.is_empty() {
            if self.core.observers.is_any() {
                let is_resync = matches!(audience, Audience::Due);
                for event in news.events() {
                    self.core.observers.tell(Step::Applied { event, is_resync });
                }
            }
            // Nobody else commits, so this is what the news are about.
            let commit = self.core.table.commits();
            self.core.board().tell(news, commit, audience, Instant::now());
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

impl ReflectorStore for Processor {
    fn add(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::Change::Added, &object);
        self.queue.add(object);
        Ok(())
    }

    fn update(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::Change::Modified, &object);
        self.queue.update(object);
        Ok(())
    }

    fn delete(&mut self, object: Object) -> Result<(), StoreError> {
        self.heard(observe::Change::Deleted, &object);
        self.queue.delete(object.into(), &*self.core.table);
        Ok(())
    }

    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion) -> Result<(), StoreError> {
        self.core.observers.tell(Step::Listed { objects: &objects, version: &version });
        self.queue.replace(objects, version, &*self.core.table);
        Ok(())
    }

    fn resync(&mut self, now: Instant) -> Result<(), StoreError> {
        self.process(&Audience::All);
        if self.core.board().look(now) {
            self.queue.resync(&*self.core.table);
            self.process(&Audience::Due);
        }
        Ok(())
    }

    fn poll_resync_period(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        self.core.board().poll_check_period(context)
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.core.observers.tell(Step::Bookmark { version });
        self.queue.bookmark(version.clone());
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.process(&Audience::All);
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
