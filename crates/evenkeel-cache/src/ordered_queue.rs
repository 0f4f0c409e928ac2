//! [`OrderedQueue`]: deltas in watch order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use evenkeel_core::ObjectKey;
use rapidhash::quality::RandomState;

use crate::delta::Delta;
use crate::delta_queue::{BACKLOG_LIMIT, Batch, InitialCount, RETAINED_CAPACITY, StoreView, emptied};
use crate::{Deleted, Object};

/// Deltas in watch order, whichever object they are about. client-go calls it `RealFIFO`; it is the default of its informers
/// and of ours.
///
/// - Nothing is merged and nothing is dropped: each push is one entry. Applying the deletion of an unknown object does nothing.
/// - The [`ListMode`] decides how a list is queued.
/// - A batch is the front of the queue, up to the limit, up to an object that the batch has a delta of already, up to a delta
///   that is always alone (see [`Batch`]), and up to the last entry of the initial list.
/// - The queue [has synced](crate::delta_queue::DeltaQueue::has_synced) when all entries that were queued after the first list are
///   processed, or at once if an event preceded the list. Bookmarks and resyncs are not events.
///
/// The queue is not bounded: the driver limits it by popping.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::delta::Delta;
/// use evenkeel_cache::parts::{BATCH_LIMIT, DeltaQueue, ListMode, OrderedQueue};
/// use evenkeel_cache::{Obj, ResourceInfo, ResourceVersion, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = Arc::new(ResourceInfo::of::<Pod>());
/// let pod = Obj::from_json(&pods, r#"{"metadata": {"name": "web-0", "namespace": "ns", "resourceVersion": "7"}}"#)?;
/// let mut queue = DeltaQueue::from(OrderedQueue::new(ListMode::Atomic));
/// let list = Delta::ReplacedAll { objects: vec![pod], resource_version: ResourceVersion::new("8") };
/// queue.push(list, &Store::<Pod>::new([]));
///
/// let batch = queue.pop(BATCH_LIMIT).unwrap();
/// assert!(matches!(&batch.deltas[..], [Delta::ReplacedAll { objects, .. }] if objects.len() == 1));
/// assert!(batch.initial && !queue.has_synced());
/// queue.processed(batch.count);
/// assert!(queue.has_synced());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OrderedQueue {
    mode: ListMode,
    deltas: VecDeque<Delta>,
    initial: InitialCount,
    /// The keys of a batch while it is assembled.
    keys: HashSet<ObjectKey, RandomState>,
    spare: Vec<Delta>,
}

/// How an [`OrderedQueue`] queues deltas that are about all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListMode {
    /// As one delta: a list is one [`Delta::ReplacedAll`], a resync one [`Delta::SyncAll`], and bookmarks are queued.
    /// Applying the delta determines what it means for single objects, so the queue does not read the store and moves the
    /// list without a copy.
    #[default]
    Atomic,
    /// As one delta per object: a list is a [`Delta::Deleted`] for each object that is queued or stored and not in the list,
    /// then a [`Delta::Replaced`] for each of its objects; a resync is a [`Delta::Sync`] for each stored object without queued
    /// deltas. Bookmarks are not queued. The push reads the store.
    PerItem,
}

impl OrderedQueue {
    /// Returns an empty queue.
    pub fn new(mode: ListMode) -> Self {
        OrderedQueue {
            mode,
            deltas: VecDeque::new(),
            initial: InitialCount::default(),
            keys: HashSet::default(),
            spare: Vec::new(),
        }
    }

    fn replace_each(&mut self, objects: Vec<Object>, store: &StoreView<'_>) {
        let mut missing = Vec::new();
        {
            let listed: HashSet<&str> = objects.iter().map(|object| object.key().as_str()).collect();
            // The queued keys that are not listed, in the order of their first delta, each with its last one.
            let mut positions: HashMap<&str, usize> = HashMap::new();
            let mut unlisted: Vec<&Delta> = Vec::new();
            for delta in &self.deltas {
                let Some(key) = delta.key().map(ObjectKey::as_str) else { continue };
                if listed.contains(key) {
                    continue;
                }
                match positions.entry(key) {
                    Entry::Occupied(position) => unlisted[*position.get()] = delta,
                    Entry::Vacant(position) => {
                        position.insert(unlisted.len());
                        unlisted.push(delta);
                    }
                }
            }
            for delta in unlisted {
                if let (false, Some(key)) = (delta.is_deleted(), delta.key()) {
                    missing.push(Deleted::Missed { key: key.clone(), last_known: delta.object().cloned() });
                }
            }
            for object in store.objects() {
                let key = object.key();
                if !listed.contains(key.as_str()) && !positions.contains_key(key.as_str()) {
                    missing.push(Deleted::Missed { key: key.clone(), last_known: Some(object) });
                }
            }
        }
        self.deltas.reserve(missing.len() + objects.len());
        self.deltas.extend(missing.into_iter().map(Delta::Deleted));
        self.deltas.extend(objects.into_iter().map(Delta::Replaced));
    }

    fn sync_each(&mut self, store: &StoreView<'_>) {
        let fresh: Vec<Object> = {
            let queued: HashSet<&str> = self.deltas.iter().filter_map(Delta::key).map(ObjectKey::as_str).collect();
            store.objects().into_iter().filter(|object| !queued.contains(object.key().as_str())).collect()
        };
        self.deltas.extend(fresh.into_iter().map(Delta::Sync));
    }

    /// Returns how many of the first `end` deltas make a batch.
    fn batch_length(&mut self, end: usize) -> usize {
        if end <= 1 || self.deltas[0].key().is_none() {
            return end.min(1);
        }
        let new = |delta: &Delta| delta.key().is_some_and(|key| self.keys.insert(key.clone()));
        let length = self.deltas.iter().take(end).map(new).take_while(|new| *new).count();
        self.keys.clear();
        self.keys.shrink_to(RETAINED_CAPACITY);
        length
    }

    pub(crate) fn push(&mut self, delta: Delta, store: &StoreView<'_>) {
        match (delta, self.mode) {
            (Delta::ReplacedAll { objects, .. }, ListMode::PerItem) => {
                self.replace_each(objects, store);
                self.initial.list(self.deltas.len());
            }
            (delta @ Delta::ReplacedAll { .. }, ListMode::Atomic) => {
                self.deltas.push_back(delta);
                self.initial.list(self.deltas.len());
            }
            (Delta::SyncAll, ListMode::PerItem) => self.sync_each(store),
            (Delta::Bookmark(_), ListMode::PerItem) => {}
            (delta @ (Delta::SyncAll | Delta::Bookmark(_) | Delta::Sync(_)), _) => self.deltas.push_back(delta),
            (delta, _) => {
                self.initial.event();
                self.deltas.push_back(delta);
            }
        }
    }

    pub(crate) fn pop(&mut self, limit: usize) -> Option<Batch> {
        let (initial, end) = self.initial.next(limit, self.deltas.len());
        let count = self.batch_length(end);
        if count == 0 {
            return None;
        }
        let mut deltas = std::mem::take(&mut self.spare);
        deltas.extend(self.deltas.drain(..count));
        if self.deltas.is_empty() && self.deltas.capacity() > RETAINED_CAPACITY {
            self.deltas.shrink_to(BACKLOG_LIMIT);
        }
        self.initial.popped(count);
        Some(Batch { deltas, initial, count })
    }

    pub(crate) fn processed(&mut self, count: usize) {
        self.initial.processed(count);
    }

    pub(crate) fn recycle(&mut self, deltas: Vec<Delta>) {
        self.spare = emptied(deltas);
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.initial.is_done()
    }

    pub(crate) fn reads_store(&self) -> bool {
        self.mode == ListMode::PerItem
    }

    pub(crate) fn len(&self) -> usize {
        self.deltas.len()
    }
}

#[cfg(test)]
mod tests;
