//! The bounded history of one resource, from which watches are served.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::record::Record;

/// One committed change. At least one of `current` and `previous` is set.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Box<str>,
    /// The object after the change; none after a deletion.
    pub(crate) current: Option<Arc<Record>>,
    /// The object before the change; none before a creation.
    pub(crate) previous: Option<Arc<Record>>,
    /// The time of the commit on the server's monotonic clock.
    pub(crate) at: Duration,
    /// The event as JSON.
    pub(crate) json: Frames,
    /// The event as protobuf, encoded when the first protobuf watch reads it.
    pub(crate) protobuf: OnceLock<Box<Frames>>,
}

/// The memory of an event besides its objects.
const EVENT_OVERHEAD: usize = 512;

impl Event {
    pub(super) fn new(
        revision: u64,
        key: Box<str>,
        current: Option<Arc<Record>>,
        previous: Option<Arc<Record>>,
        at: Duration,
    ) -> Self {
        Event { revision, key, current, previous, at, json: Frames::default(), protobuf: OnceLock::new() }
    }

    /// Returns the memory that the history keeps for this event: the object before the change, the frame with the object
    /// after it that the first watch encodes, and the event itself. The current object is not part of it: it belongs to
    /// the store as long as it is the latest, and to the next event afterwards.
    pub(super) fn bytes(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |record| record.json().len());
        // The event of a deletion shows the object before it.
        let shown = self.current.as_ref().map_or(previous, |record| record.json().len());
        previous + shown + self.key.len() + EVENT_OVERHEAD
    }
}

/// The frames that most watches share. The first watch that needs one encodes it (STO-18).
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) whole: OnceLock<Bytes>,
    /// The frame of watches of metadata.
    pub(crate) metadata: OnceLock<Bytes>,
}

/// The events of one resource in the history, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    /// The sum of [`Event::bytes`].
    bytes: usize,
    /// The revision of the newest evicted event.
    evicted: u64,
    /// Reads and new watches start here or later; at or after `evicted`.
    floor: u64,
}

impl Ring {
    /// Returns an empty history that starts after this revision.
    pub(super) fn new(floor: u64) -> Self {
        Ring { events: VecDeque::new(), bytes: 0, evicted: 0, floor }
    }

    /// Returns an empty history of which earlier events were evicted.
    pub(super) fn restored(floor: u64, evicted: u64) -> Self {
        Ring { events: VecDeque::new(), bytes: 0, evicted, floor }
    }

    /// Returns the revision of the newest evicted event.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns all events, oldest first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    /// Returns whether the event of a revision is in the history.
    pub(super) fn contains(&self, revision: u64) -> bool {
        self.events.binary_search_by_key(&revision, |event| event.revision).is_ok()
    }

    /// Removes the newest event.
    pub(super) fn pop(&mut self) {
        if let Some(newest) = self.events.pop_back() {
            self.bytes = self.bytes.saturating_sub(newest.bytes());
        }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the revision of the oldest event.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.events.front().map(|event| event.revision)
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.bytes();
        self.events.push_back(event);
    }

    /// Evicts the oldest event if `is_expired` returns true, and returns it.
    pub(super) fn evict_if(&mut self, is_expired: impl FnOnce(&Event) -> bool) -> Option<Arc<Event>> {
        if !is_expired(self.events.front()?) {
            return None;
        }
        let oldest = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.bytes());
        self.evicted = oldest.revision;
        self.floor = self.floor.max(oldest.revision);
        Some(oldest)
    }

    /// Refuses reads and new watches before this revision, whose events must be evicted.
    pub(super) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// Returns the events after a revision, oldest first; `None` if some of them are evicted. A watch that has read all
    /// events survives a floor that is raised above it.
    pub(super) fn after(&self, revision: u64) -> Option<impl Iterator<Item = &Arc<Event>>> {
        if revision < self.evicted {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Some(self.events.range(start..))
    }
}
