//! [`DeltaFifo`]: deltas by the object that they are about.

use std::collections::{HashMap, HashSet, VecDeque};

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use super::initial_count::InitialCount;
use super::{BACKLOG_LIMIT, Batch, Delta, DeltaQueue, KnownObjects, ROOM_KEPT, emptied};
use crate::{Deleted, Object};

/// How many deltas a [`DeltaFifo`] keeps of one object before it puts them together.
pub const MAX_DELTAS_PER_KEY: usize = 64;

/// The classic queue: deltas by the object that they are about, objects in the order in which they were first heard of.
///
/// - What is heard of an object that is queued already joins what is queued, and does not change its place.
/// - All deltas of an object come out together, oldest first.
/// - Of two deletions in a row one is kept: the first, unless its final state is unknown.
/// - A deletion of an object that is neither queued nor known is dropped.
/// - A list is a [`Delta::Replaced`] for each object that it has, then a [`Delta::Deleted`] for each that it has not and
///   that is queued or known.
/// - A resync is a [`Delta::Sync`] for each known object of which nothing is queued.
/// - Versions of lists and bookmarks are not queued.
/// - It [has synced](DeltaQueue::has_synced) when the objects have been processed that were queued when the first list had
///   come, or at once if something else came before any list. Resyncs do not count as something else.
///
/// # Memory
///
/// What is queued is bounded by the number of objects, times [`MAX_DELTAS_PER_KEY`]. A reader that lags so far behind one
/// object is told less of it: what is queued of the object when one more comes is put together to what it was last before
/// it first went, that it went, and what it is now that it is back. Whoever follows along has heard of every object that
/// is gone, and has the last state of each that is there.
#[derive(Debug, Default)]
pub struct DeltaFifo {
    /// Every key here is in `order`, once, and the other way round.
    entries: HashMap<ObjectKey, Entry>,
    order: VecDeque<ObjectKey>,
    initial_count: InitialCount,
    spare: Vec<Delta>,
}

/// What is queued of one object. Mostly that is one delta, which then needs no memory of its own.
#[derive(Debug)]
struct Entry {
    oldest: Delta,
    later: Vec<Delta>,
}

impl Entry {
    fn newest(&self) -> &Delta {
        self.later.last().unwrap_or(&self.oldest)
    }

    fn newest_mut(&mut self) -> &mut Delta {
        self.later.last_mut().unwrap_or(&mut self.oldest)
    }

    fn len(&self) -> usize {
        1 + self.later.len()
    }

    fn push(&mut self, delta: Delta) {
        if let (Delta::Deleted(before), Delta::Deleted(_)) = (self.newest(), &delta) {
            if before.is_final_state_unknown() {
                *self.newest_mut() = delta;
            }
            return;
        }
        if self.len() >= MAX_DELTAS_PER_KEY {
            self.put_together();
        }
        self.later.push(delta);
    }

    /// Leaves what the object was last before its first deletion, that deletion, and what came after the last one.
    fn put_together(&mut self) {
        let mut before: Option<Delta> = None;
        let mut deletion: Option<Delta> = None;
        let mut after: Option<Delta> = None;
        let oldest = std::mem::replace(&mut self.oldest, Delta::SyncAll);
        for delta in std::iter::once(oldest).chain(self.later.drain(..)) {
            match (delta.is_deleted(), &deletion) {
                (true, None) => deletion = Some(delta),
                (true, Some(_)) => after = None,
                (false, None) => before = Some(delta),
                (false, Some(_)) => after = Some(delta),
            }
        }
        let mut left = before.into_iter().chain(deletion).chain(after);
        if let Some(oldest) = left.next() {
            self.oldest = oldest;
        }
        self.later.extend(left);
        self.later.shrink_to(MAX_DELTAS_PER_KEY);
    }
}

impl DeltaFifo {
    /// An empty queue.
    pub fn new() -> Self {
        DeltaFifo::default()
    }

    fn push(&mut self, key: &ObjectKey, delta: Delta) {
        match self.entries.get_mut(key) {
            Some(entry) => entry.push(delta),
            None => {
                self.order.push_back(key.clone());
                self.entries.insert(key.clone(), Entry { oldest: delta, later: Vec::new() });
            }
        }
    }

    fn push_object(&mut self, object: Object, delta: fn(Object) -> Delta) {
        let key = object.key().clone();
        self.push(&key, delta(object));
    }
}

impl DeltaQueue for DeltaFifo {
    fn add(&mut self, object: Object) {
        self.initial_count.event();
        self.push_object(object, Delta::Added);
    }

    fn update(&mut self, object: Object) {
        self.initial_count.event();
        self.push_object(object, Delta::Updated);
    }

    fn delete(&mut self, deleted: Deleted<Untyped>, known: &dyn KnownObjects) {
        self.initial_count.event();
        let key = deleted.key().clone();
        if self.entries.contains_key(&key) || known.get(&key).is_some() {
            self.push(&key, Delta::Deleted(deleted));
        }
    }

    fn replace(&mut self, objects: Vec<Object>, _: ResourceVersion, known: &dyn KnownObjects) {
        let listed: HashSet<ObjectKey> = objects.iter().map(|object| object.key().clone()).collect();
        for object in objects {
            self.push_object(object, Delta::Replaced);
        }
        for key in &self.order {
            if let (false, Some(entry)) = (listed.contains(key), self.entries.get_mut(key)) {
                let last_known = entry.newest().object().cloned();
                entry.push(Delta::Deleted(Deleted::Missed { key: key.clone(), last_known }));
            }
        }
        for key in known.keys() {
            if !self.entries.contains_key(&key) {
                let last_known = known.get(&key);
                self.push(&key.clone(), Delta::Deleted(Deleted::Missed { key, last_known }));
            }
        }
        self.initial_count.list(self.order.len());
    }

    fn resync(&mut self, known: &dyn KnownObjects) {
        for key in known.keys() {
            if self.entries.contains_key(&key) {
                continue;
            }
            if let Some(object) = known.get(&key) {
                self.push(&key, Delta::Sync(object));
            }
        }
    }

    fn bookmark(&mut self, _: ResourceVersion) {}

    /// All deltas of the next object, and those of further ones while all of them are at most `limit`.
    fn pop(&mut self, limit: usize) -> Option<Batch> {
        let (initial, end) = self.initial_count.next(limit, self.order.len());
        let mut deltas = std::mem::take(&mut self.spare);
        let mut count = 0;
        while count < end {
            let fits = |entry: &Entry| count == 0 || deltas.len() + entry.len() <= limit;
            if !self.order.front().and_then(|key| self.entries.get(key)).is_some_and(fits) {
                break;
            }
            let Some(entry) = self.order.pop_front().and_then(|key| self.entries.remove(&key)) else { break };
            deltas.push(entry.oldest);
            deltas.extend(entry.later);
            count += 1;
        }
        if self.order.is_empty() && self.order.capacity() > ROOM_KEPT {
            self.order.shrink_to(BACKLOG_LIMIT);
            self.entries.shrink_to(BACKLOG_LIMIT);
        }
        if count == 0 {
            self.spare = deltas;
            return None;
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

    /// How many objects are queued.
    fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests;
