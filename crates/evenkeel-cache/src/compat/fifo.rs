//! [`Fifo`]: the last state of each object.

use std::collections::{HashMap, VecDeque};

use evenkeel_core::ObjectKey;

use crate::Object;
use crate::delta::Delta;
use crate::delta_queue::{BACKLOG_LIMIT, Batch, InitialCount, RETAINED_CAPACITY, StoreView, emptied};

/// A queue of the last state of each object, in the order of their first delta.
///
/// - A queued object keeps its position and takes its new state. It is popped as [`Delta::Updated`], whatever it was pushed
///   as.
/// - A delete removes the object from the queue, and is not popped itself. An object that is added again before its turn
///   keeps its position.
/// - A list replaces the whole queue. Objects that are missing from it cause no delete.
/// - Resyncs and bookmarks have no effect; the store is not read.
#[derive(Debug, Default)]
pub struct Fifo {
    /// Contains the same keys as `order`. A deleted object keeps its position as `None`, so that a delete needs no search.
    objects: HashMap<ObjectKey, Option<Object>>,
    /// The first key is never that of a deleted object.
    order: VecDeque<ObjectKey>,
    present: usize,
    initial_count: InitialCount,
    spare: Vec<Delta>,
}

impl Fifo {
    /// Returns an empty queue.
    pub fn new() -> Self {
        Fifo::default()
    }

    fn put(&mut self, object: Object) {
        match self.objects.get_mut(object.key()) {
            Some(place) => {
                self.present += usize::from(place.is_none());
                *place = Some(object);
            }
            None => {
                self.present += 1;
                self.order.push_back(object.key().clone());
                self.objects.insert(object.key().clone(), Some(object));
            }
        }
    }

    /// Pops the next position: an object, or `Some(None)` for a deleted one; `None` at the end.
    fn next(&mut self) -> Option<Option<Object>> {
        let key = self.order.pop_front()?;
        self.initial_count.popped(1);
        let object = self.objects.remove(&key)?;
        self.present -= usize::from(object.is_some());
        Some(object)
    }

    /// Removes positions of deleted objects once they outnumber the others. Those of the initial list stay, as they are
    /// counted.
    fn tidy(&mut self) {
        if !self.initial_count.is_done() || self.order.len() <= 2 * self.present + 16 {
            return;
        }
        self.objects.retain(|_, object| object.is_some());
        let objects = &self.objects;
        self.order.retain(|key| objects.contains_key(key));
    }

    /// Removes deleted objects from the front.
    fn skip_deleted(&mut self) {
        while let Some(key) = self.order.front() {
            if self.objects.get(key).is_some_and(Option::is_some) {
                return;
            }
            self.next();
            self.initial_count.processed(1);
        }
        if self.order.capacity() > RETAINED_CAPACITY {
            self.order.shrink_to(BACKLOG_LIMIT);
            self.objects.shrink_to(BACKLOG_LIMIT);
        }
    }

    pub(crate) fn push(&mut self, delta: Delta, _: &StoreView<'_>) {
        match delta {
            Delta::ReplacedAll { objects, .. } => self.replace_all(objects),
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                self.initial_count.event();
                self.put(object);
            }
            Delta::Deleted(deleted) => {
                self.initial_count.event();
                if self.objects.get_mut(deleted.key()).and_then(Option::take).is_some() {
                    self.present -= 1;
                    self.skip_deleted();
                    self.tidy();
                }
            }
            Delta::Sync(_) | Delta::SyncAll | Delta::Bookmark(_) => {}
        }
    }

    fn replace_all(&mut self, objects: Vec<Object>) {
        self.objects.clear();
        self.order.clear();
        self.present = 0;
        for object in objects {
            self.put(object);
        }
        self.initial_count.list_instead(self.order.len());
    }

    pub(crate) fn pop(&mut self, limit: usize) -> Option<Batch> {
        let (initial, end) = self.initial_count.next(limit, self.order.len());
        if end == 0 {
            return None;
        }
        let mut deltas = std::mem::take(&mut self.spare);
        for _ in 0..end {
            deltas.extend(self.next().flatten().map(Delta::Updated));
        }
        self.skip_deleted();
        Some(Batch { deltas, initial, count: end })
    }

    pub(crate) fn processed(&mut self, count: usize) {
        self.initial_count.processed(count);
    }

    pub(crate) fn recycle(&mut self, deltas: Vec<Delta>) {
        self.spare = emptied(deltas);
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.initial_count.is_done()
    }

    /// Returns the number of queued objects.
    pub(crate) fn len(&self) -> usize {
        self.present
    }
}

#[cfg(test)]
mod tests;
