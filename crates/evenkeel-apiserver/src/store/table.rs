//! [`Table`]: the objects of one resource.

use std::ops::Bound;
use std::sync::Arc;

use super::chain::{Chain, Version};
use super::interest::Watchers;
use super::object_map::ObjectMap;
use super::ring::{Event, Ring};
use super::{History, Record, Span};

/// The objects of one resource, their recent versions, and the watches on them.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: ObjectMap,
    /// Keys whose latest version is an object.
    pub(super) live: usize,
    /// The bytes of those objects.
    pub(super) object_bytes: usize,
    pub(super) ring: Ring,
    pub(super) watchers: Arc<Watchers>,
    /// Events since all watches were last woken.
    pub(super) since_wake_all: usize,
    /// The bytes of those events.
    pub(super) bytes_since_wake_all: usize,
}

impl Table {
    /// Returns an empty table whose history starts at `floor`.
    pub(super) fn new(floor: u64) -> Self {
        Table {
            objects: ObjectMap::default(),
            live: 0,
            object_bytes: 0,
            ring: Ring::new(floor),
            watchers: Arc::new(Watchers::default()),
            since_wake_all: 0,
            bytes_since_wake_all: 0,
        }
    }

    /// Returns a table with the same objects and history, without watches.
    pub(super) fn copy(&self) -> Self {
        Table {
            objects: self.objects.clone(),
            live: self.live,
            object_bytes: self.object_bytes,
            ring: self.ring.clone(),
            watchers: Arc::default(),
            since_wake_all: 0,
            bytes_since_wake_all: 0,
        }
    }

    pub(super) fn span<'a>(&'a self, span: Span<'a>) -> impl Iterator<Item = (&'a Box<str>, &'a Chain)> {
        let from = match span.after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(span.prefix),
        };
        self.objects.range(from).take_while(move |(key, _)| key.starts_with(span.prefix))
    }

    pub(super) fn apply(&mut self, event: &Arc<Event>, history: History) {
        let version = match &event.current {
            Some(record) => Version::Live(Arc::clone(record)),
            None => Version::Tombstone(event.revision),
        };
        self.live = self.live + usize::from(event.current.is_some()) - usize::from(event.previous.is_some());
        let length = |record: &Option<Arc<Record>>| record.as_ref().map_or(0, |record| record.json().len());
        self.object_bytes = (self.object_bytes + length(&event.current)).saturating_sub(length(&event.previous));
        match self.objects.get_mut(&event.key) {
            Some(chain) => chain.push(version),
            None => {
                self.objects.insert(event.key.clone(), Chain::new(version));
            }
        }
        self.ring.push(Arc::clone(event));
        self.since_wake_all += 1;
        self.bytes_since_wake_all += event.bytes();
        while self.ring.len() > history.events && self.evict(|_| true) {}
    }

    /// Takes back the latest event.
    pub(super) fn undo(&mut self, event: &Event) {
        let length = |record: &Option<Arc<Record>>| record.as_ref().map_or(0, |record| record.json().len());
        self.live = self.live + usize::from(event.previous.is_some()) - usize::from(event.current.is_some());
        self.object_bytes = (self.object_bytes + length(&event.previous)).saturating_sub(length(&event.current));
        if self.objects.get_mut(&event.key).is_some_and(|chain| chain.pop(event.previous.as_ref())) {
            self.objects.remove(&event.key);
        }
        self.ring.pop();
    }

    /// Returns whether to wake all watches, which happens twice per length of the ring, in events or in bytes. A watch that
    /// no event concerns advances then, and does not expire like one that cannot keep up.
    pub(super) fn is_wake_all_due(&mut self, history: History) -> bool {
        let due = self.since_wake_all >= (history.events / 2).max(1)
            || self.bytes_since_wake_all >= (history.bytes / 8).max(1);
        if due {
            self.since_wake_all = 0;
            self.bytes_since_wake_all = 0;
        }
        due
    }

    /// Evicts the oldest event if `is_expired` returns true, and the versions that only reads before it need.
    pub(super) fn evict(&mut self, is_expired: impl FnOnce(&Event) -> bool) -> bool {
        let Some(event) = self.ring.evict_if(is_expired) else {
            return false;
        };
        if let Some(chain) = self.objects.get_mut(&event.key)
            && chain.trim(event.revision)
        {
            self.objects.remove(&event.key);
        }
        true
    }
}
