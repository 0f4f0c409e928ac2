//! [`OrderedQueue`]: deltas in the order in which they were heard of.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use super::initial_count::InitialCount;
use super::{BACKLOG_LIMIT, Batch, Delta, DeltaQueue, KnownObjects, ROOM_KEPT, emptied};
use crate::{Deleted, Object};

/// Deltas in the order in which they were heard of, whichever object they are about. client-go calls it `RealFIFO`, and
/// its informers use it, as ours do, unless told otherwise.
///
/// - Nothing is merged and nothing is left out: each push is one entry. A deletion is queued even of an object that
///   nobody has heard of; who applies it finds nothing to delete and says nothing.
/// - How a list is queued is for the [`Mode`] to say.
/// - A batch is what comes first in the queue, up to the limit, up to an object that the batch has a delta of already, up
///   to a delta that comes alone (see [`Batch`]), and up to the last entry of the first list.
/// - It [has synced](DeltaQueue::has_synced) when all has been processed that was queued when the first list had come, or
///   at once if something else came before any list. Bookmarks and resyncs do not count as something else.
///
/// It grows with what is pushed and not popped; see [`BACKLOG_LIMIT`](super::BACKLOG_LIMIT).
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::queue::{BATCH_LIMIT, Delta, DeltaQueue, Mode, NothingKnown, OrderedQueue};
/// use evenkeel_cache::{Obj, ResourceInfo, ResourceVersion};
///
/// let pods = Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true));
/// let pod = Obj::from_json(&pods, r#"{"metadata": {"name": "web-0", "namespace": "ns", "resourceVersion": "7"}}"#)?;
/// let mut queue = OrderedQueue::new(Mode::Atomic);
/// queue.replace(vec![pod], ResourceVersion::new("8"), &NothingKnown);
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
    mode: Mode,
    deltas: VecDeque<Delta>,
    initial_count: InitialCount,
    /// The keys of a batch while it is put together.
    keys: HashSet<ObjectKey>,
    spare: Vec<Delta>,
}

/// How an [`OrderedQueue`] queues what is about all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As one delta: a list is one [`Delta::ReplacedAll`], a resync one [`Delta::SyncAll`], and bookmarks are queued.
    /// What that means for single objects is found out when it is applied, so the store is not asked and a list is moved,
    /// not copied.
    #[default]
    Atomic,
    /// As one delta for each object: a list is a [`Delta::Deleted`] for each object that it does not have and that is
    /// queued or known, then a [`Delta::Replaced`] for each that it has; a resync is a [`Delta::Sync`] for each known
    /// object of which nothing is queued. Bookmarks are not queued. The store is asked at the time of the push.
    PerItem,
}

impl OrderedQueue {
    /// An empty queue.
    pub fn new(mode: Mode) -> Self {
        OrderedQueue {
            mode,
            deltas: VecDeque::new(),
            initial_count: InitialCount::default(),
            keys: HashSet::new(),
            spare: Vec::new(),
        }
    }

    fn replace_each(&mut self, objects: Vec<Object>, known: &dyn KnownObjects) {
        let mut gone = Vec::new();
        {
            let listed: HashSet<&str> = objects.iter().map(|object| object.key().as_str()).collect();
            // The queued keys that are not listed, in the order of their first delta, each with its last one.
            let mut places: HashMap<&str, usize> = HashMap::new();
            let mut unlisted: Vec<&Delta> = Vec::new();
            for delta in &self.deltas {
                let Some(key) = delta.key().map(ObjectKey::as_str) else { continue };
                if listed.contains(key) {
                    continue;
                }
                match places.entry(key) {
                    Entry::Occupied(place) => unlisted[*place.get()] = delta,
                    Entry::Vacant(place) => {
                        place.insert(unlisted.len());
                        unlisted.push(delta);
                    }
                }
            }
            for delta in unlisted {
                if let (false, Some(key)) = (delta.is_deleted(), delta.key()) {
                    gone.push(Deleted::Missed { key: key.clone(), last_known: delta.object().cloned() });
                }
            }
            for key in known.keys() {
                if !listed.contains(key.as_str()) && !places.contains_key(key.as_str()) {
                    let last_known = known.get(&key);
                    gone.push(Deleted::Missed { key, last_known });
                }
            }
        }
        self.deltas.reserve(gone.len() + objects.len());
        self.deltas.extend(gone.into_iter().map(Delta::Deleted));
        self.deltas.extend(objects.into_iter().map(Delta::Replaced));
    }

    fn sync_each(&mut self, known: &dyn KnownObjects) {
        let fresh: Vec<Object> = {
            let queued: HashSet<&str> = self.deltas.iter().filter_map(Delta::key).map(ObjectKey::as_str).collect();
            let idle = known.keys().into_iter().filter(|key| !queued.contains(key.as_str()));
            idle.filter_map(|key| known.get(&key)).collect()
        };
        self.deltas.extend(fresh.into_iter().map(Delta::Sync));
    }

    /// How many of the first `end` deltas make a batch.
    fn batch_length(&mut self, end: usize) -> usize {
        if end <= 1 || self.deltas[0].key().is_none() {
            return end.min(1);
        }
        let new = |delta: &Delta| delta.key().is_some_and(|key| self.keys.insert(key.clone()));
        let length = self.deltas.iter().take(end).map(new).take_while(|new| *new).count();
        self.keys.clear();
        self.keys.shrink_to(ROOM_KEPT);
        length
    }
}

impl DeltaQueue for OrderedQueue {
    fn add(&mut self, object: Object) {
        self.initial_count.event();
        self.deltas.push_back(Delta::Added(object));
    }

    fn update(&mut self, object: Object) {
        self.initial_count.event();
        self.deltas.push_back(Delta::Updated(object));
    }

    fn delete(&mut self, deleted: Deleted<Untyped>, _: &dyn KnownObjects) {
        self.initial_count.event();
        self.deltas.push_back(Delta::Deleted(deleted));
    }

    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion, known: &dyn KnownObjects) {
        match self.mode {
            Mode::Atomic => self.deltas.push_back(Delta::ReplacedAll { objects, resource_version: version }),
            Mode::PerItem => self.replace_each(objects, known),
        }
        self.initial_count.list(self.deltas.len());
    }

    fn resync(&mut self, known: &dyn KnownObjects) {
        match self.mode {
            Mode::Atomic => self.deltas.push_back(Delta::SyncAll),
            Mode::PerItem => self.sync_each(known),
        }
    }

    fn bookmark(&mut self, version: ResourceVersion) {
        match self.mode {
            Mode::Atomic => self.deltas.push_back(Delta::Bookmark(version)),
            Mode::PerItem => {}
        }
    }

    fn pop(&mut self, limit: usize) -> Option<Batch> {
        let (initial, end) = self.initial_count.next(limit, self.deltas.len());
        let count = self.batch_length(end);
        if count == 0 {
            return None;
        }
        let mut deltas = std::mem::take(&mut self.spare);
        deltas.extend(self.deltas.drain(..count));
        if self.deltas.is_empty() && self.deltas.capacity() > ROOM_KEPT {
            self.deltas.shrink_to(BACKLOG_LIMIT);
        }
        self.initial_count.popped(count);
        Some(Batch { deltas, initial, count })
    }

    fn processed(&mut self, count: usize) {
        self.initial_count.processed(count);
    }

    fn recycle(&mut self, deltas: Vec<Delta>) {
        self.spare = emptied(deltas);
    }

    fn has_synced(&self) -> bool {
        self.initial_count.is_done()
    }

    fn asks_for_known(&self) -> bool {
        self.mode == Mode::PerItem
    }

    fn len(&self) -> usize {
        self.deltas.len()
    }
}

#[cfg(test)]
mod tests;
