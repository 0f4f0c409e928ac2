//! [`Fifo`]: the last state of each object.

use std::collections::{HashMap, VecDeque};

use evenkeel_core::ObjectKey;

use crate::Object;
use crate::delta::{BACKLOG_LIMIT, Batch, Delta, InitialCount, RETAINED_CAPACITY, StoreView, emptied};

/// The last state of each object, objects in the order in which they were first heard of.
///
/// - An object that is queued already keeps its place and takes its new state. It comes out as a [`Delta::Updated`],
///   whatever it was pushed as.
/// - What is deleted no longer comes out, and neither does the deletion. One that comes back before its turn has the place
///   it had.
/// - A list takes the place of all that is queued. Nobody is told what it has not.
/// - Resyncs and bookmarks do nothing; the store is not asked.
///
/// This is for those to whom only the last state matters, and who find out for themselves what is gone.
#[derive(Debug, Default)]
pub struct Fifo {
    /// Every key here is in `order`, once, and the other way round. Those that were deleted wait for their turn with
    /// nothing, so that deleting costs no search.
    objects: HashMap<ObjectKey, Option<Object>>,
    /// The first is never one that was deleted.
    order: VecDeque<ObjectKey>,
    present: usize,
    initial_count: InitialCount,
    spare: Vec<Delta>,
}

impl Fifo {
    /// An empty queue.
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

    /// The next in line: an object, or the place of one that was deleted; `None` at the end.
    fn next(&mut self) -> Option<Option<Object>> {
        let key = self.order.pop_front()?;
        self.initial_count.popped(1);
        let object = self.objects.remove(&key)?;
        self.present -= usize::from(object.is_some());
        Some(object)
    }

    /// Keeps the line from growing with objects that come and go behind one that stays. Those of the first list keep their
    /// places, as they are counted.
    fn tidy(&mut self) {
        if !self.initial_count.is_done() || self.order.len() <= 2 * self.present + 16 {
            return;
        }
        self.objects.retain(|_, object| object.is_some());
        let objects = &self.objects;
        self.order.retain(|key| objects.contains_key(key));
    }

    /// Sees to it that the first in line is there.
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

    /// How many objects are queued.
    pub(crate) fn len(&self) -> usize {
        self.present
    }
}

#[cfg(test)]
mod tests;
