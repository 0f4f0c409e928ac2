//! The bounded history of one resource, from which watches are served.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::record::Record;

/// One committed change. At least one of `current` and `previous` is there.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Box<str>,
    /// The state after the change; none after a deletion.
    pub(crate) current: Option<Arc<Record>>,
    /// The state before the change; none before a creation.
    pub(crate) previous: Option<Arc<Record>>,
    /// When it happened, on the server's monotonic clock.
    pub(super) at: Duration,
    /// The event as JSON.
    pub(crate) json: Frames,
    /// The event as protobuf, which costs nothing until somebody watches in it.
    pub(crate) protobuf: OnceLock<Box<Frames>>,
}

/// An event as most watchers see it, written once, by the first watcher that needs it (STO-18).
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) whole: OnceLock<Bytes>,
    /// For watchers of metadata alone.
    pub(crate) metadata: OnceLock<Bytes>,
}

/// The events of one resource that are still remembered, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The revision of the newest event that is forgotten.
    evicted: u64,
    /// Reads and new watches start here or later; at or after `evicted`.
    floor: u64,
}

impl Ring {
    /// An empty history that begins after this revision.
    pub(super) fn new(floor: u64) -> Self {
        Ring { events: VecDeque::new(), evicted: 0, floor }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.events.push_back(event);
    }

    /// Forgets the oldest event if `forget` says so, and answers with it.
    pub(super) fn evict_if(&mut self, forget: impl FnOnce(&Event) -> bool) -> Option<Arc<Event>> {
        if !forget(self.events.front()?) {
            return None;
        }
        let oldest = self.events.pop_front()?;
        self.evicted = oldest.revision;
        self.floor = self.floor.max(oldest.revision);
        Some(oldest)
    }

    /// Refuses reads and new watches before this revision, whose events must be gone already.
    pub(super) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// The events after a revision, oldest first; `None` if some of them are forgotten. A watcher that has read
    /// everything survives a floor that is raised above it.
    pub(super) fn after(&self, revision: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        if revision < self.evicted {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Some(self.events.range(start..))
    }
}
