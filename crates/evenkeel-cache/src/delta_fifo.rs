//! [`DeltaFifo`]: deltas by the object that they are about.

use std::collections::{HashMap, HashSet, VecDeque};

use evenkeel_core::ObjectKey;

use crate::delta::Delta;
use crate::delta_queue::{BACKLOG_LIMIT, Batch, InitialCount, RETAINED_CAPACITY, StoreView, emptied};
use crate::{Deleted, Object};

/// The number of deltas of one object that a [`DeltaFifo`] holds before it compresses them.
const MAX_DELTAS_PER_KEY: usize = 64;

/// The classic queue: deltas by the object that they are about, objects in the order of their first delta.
///
/// - A delta of an object that is queued already joins the queued ones. The object keeps its position.
/// - All deltas of an object leave the queue together, oldest first.
/// - Of two deletions in a row one is kept: the first, unless its final state is unknown.
/// - A deletion of an object that is neither queued nor stored is dropped.
/// - A list becomes a [`Delta::Replaced`] for each of its objects, then a [`Delta::Deleted`] for each object that is queued or
///   stored and not in the list.
/// - A resync becomes a [`Delta::Sync`] for each stored object without queued deltas.
/// - Versions of lists and bookmarks are not queued.
/// - The queue [has synced](crate::delta_queue::DeltaQueue::has_synced) when the objects that were queued after the first list are
///   processed, or at once if an event preceded the list. Resyncs are not events.
///
/// # Memory
///
/// The queue is bounded by 64 deltas for each object. When a consumer lags that far behind on one object, the queue
/// compresses its deltas: the last state before the first deletion, that deletion, and the state after the last one. A
/// consumer still observes every deletion and the last state of each object.
#[derive(Debug, Default)]
pub struct DeltaFifo {
    /// Has the same keys as `order`.
    entries: HashMap<ObjectKey, KeyDeltas>,
    order: VecDeque<ObjectKey>,
    initial: InitialCount,
    spare: Vec<Delta>,
}

/// The queued deltas of one object. Mostly there is one, which needs no allocation.
#[derive(Debug)]
struct KeyDeltas {
    oldest: Delta,
    later: Vec<Delta>,
}

impl KeyDeltas {
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
            self.compress();
        }
        self.later.push(delta);
    }

    /// Keeps the last state before the first deletion, that deletion, and the state after the last one.
    fn compress(&mut self) {
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
    /// Returns an empty queue.
    pub fn new() -> Self {
        DeltaFifo::default()
    }

    fn enqueue(&mut self, key: &ObjectKey, delta: Delta) {
        match self.entries.get_mut(key) {
            Some(entry) => entry.push(delta),
            None => {
                self.order.push_back(key.clone());
                self.entries.insert(key.clone(), KeyDeltas { oldest: delta, later: Vec::new() });
            }
        }
    }

    fn enqueue_object(&mut self, object: Object, delta: fn(Object) -> Delta) {
        let key = object.key().clone();
        self.enqueue(&key, delta(object));
    }

    pub(crate) fn push(&mut self, delta: Delta, store: &StoreView<'_>) {
        match delta {
            Delta::ReplacedAll { objects, .. } => self.replace_each(objects, store),
            Delta::SyncAll => self.sync_each(store),
            Delta::Bookmark(_) => {}
            Delta::Deleted(deleted) => {
                self.initial.event();
                let key = deleted.key().clone();
                if self.entries.contains_key(&key) || store.contains(&key) {
                    self.enqueue(&key, Delta::Deleted(deleted));
                }
            }
            Delta::Sync(object) => self.enqueue_object(object, Delta::Sync),
            Delta::Added(object) => self.event(object, Delta::Added),
            Delta::Updated(object) => self.event(object, Delta::Updated),
            Delta::Replaced(object) => self.event(object, Delta::Replaced),
        }
    }

    fn event(&mut self, object: Object, delta: fn(Object) -> Delta) {
        self.initial.event();
        self.enqueue_object(object, delta);
    }

    fn replace_each(&mut self, objects: Vec<Object>, store: &StoreView<'_>) {
        let listed: HashSet<ObjectKey> = objects.iter().map(|object| object.key().clone()).collect();
        for object in objects {
            self.enqueue_object(object, Delta::Replaced);
        }
        for key in &self.order {
            if let (false, Some(entry)) = (listed.contains(key), self.entries.get_mut(key)) {
                let last_known = entry.newest().object().cloned();
                entry.push(Delta::Deleted(Deleted::Missed { key: key.clone(), last_known }));
            }
        }
        for object in store.objects() {
            if !self.entries.contains_key(object.key()) {
                let key = object.key().clone();
                self.enqueue(&key.clone(), Delta::Deleted(Deleted::Missed { key, last_known: Some(object) }));
            }
        }
        self.initial.list(self.order.len());
    }

    fn sync_each(&mut self, store: &StoreView<'_>) {
        for object in store.objects() {
            if !self.entries.contains_key(object.key()) {
                self.enqueue_object(object, Delta::Sync);
            }
        }
    }

    /// Returns all deltas of the next object, and those of further objects while the total is at most `limit`.
    pub(crate) fn pop(&mut self, limit: usize) -> Option<Batch> {
        let (initial, end) = self.initial.next(limit, self.order.len());
        let mut deltas = std::mem::take(&mut self.spare);
        let mut count = 0;
        while count < end {
            let fits = |entry: &KeyDeltas| count == 0 || deltas.len() + entry.len() <= limit;
            if !self.order.front().and_then(|key| self.entries.get(key)).is_some_and(fits) {
                break;
            }
            let Some(entry) = self.order.pop_front().and_then(|key| self.entries.remove(&key)) else { break };
            deltas.push(entry.oldest);
            deltas.extend(entry.later);
            count += 1;
        }
        if self.order.is_empty() && self.order.capacity() > RETAINED_CAPACITY {
            self.order.shrink_to(BACKLOG_LIMIT);
            self.entries.shrink_to(BACKLOG_LIMIT);
        }
        if count == 0 {
            self.spare = deltas;
            return None;
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

    /// Returns the number of queued objects.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests;
