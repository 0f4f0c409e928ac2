//! [`RangedStreams`]: the reflectors of an informer whose places change, and what each of them is for.
//!
//! The first stream is the main one. Gained places get a side stream: a reflector of its own, so that the others are not listed again. When
//! the main stream requests its next watch, it takes the places of the side streams over and starts at the lowest version of all. The
//! events that are repeated then are dropped by its reflector, which knows the version that each place had reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::shard::{ShardKey, ShardRanges};
use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::process_loop::ProcessLoop;
use super::shared::InformerShared;
use crate::delta::Delta;
use crate::reflector::shards::Shards;
use crate::reflector::{DeltaSink, SinkError, SinkRequest, WatchStart};
use crate::shard_scope::Places;
use crate::store::PlaceVersions;
use crate::{Deleted, Object};

/// The number of side streams from which on the main watch is requested again at once. Further places wait for that.
const MANY_SIDE_STREAMS: usize = 5;
/// A repair and a request for another watch.
const MAX_REQUESTS: usize = 2;

pub(super) struct RangedStreams {
    shared: Arc<InformerShared>,
    process_loop: ProcessLoop,
    key: ShardKey,
    wanted: ShardRanges,
    /// The main stream first. Their places are disjoint.
    streams: Vec<RangedStream>,
    last_id: u64,
    /// The main stream has received a request for another watch.
    is_rewatch_requested: bool,
    /// What the store publishes as the versions of places.
    by_place: Option<PlaceVersions>,
    /// The versions of removals that a stream has not reached, without a key by name: that stream may repeat an earlier object of the name.
    removals: HashMap<ObjectKey, ResourceVersion>,
    /// Notified when side streams have ended, and places may wait for that.
    freed: Arc<Notify>,
}

/// One reflector, and the part of the store that it fills.
struct RangedStream {
    id: u64,
    ranges: ShardRanges,
    shards: Arc<Shards>,
    /// The version that the store has reached in these places; empty before the first list.
    version: ResourceVersion,
    is_listed: bool,
    requests: mpsc::Sender<SinkRequest>,
    task: Option<AbortHandle>,
}

/// A stream whose reflector is to be started.
pub(super) struct NewStream {
    pub(super) id: u64,
    pub(super) shards: Arc<Shards>,
    pub(super) requests: mpsc::Receiver<SinkRequest>,
}

/// A stream at one moment, for a consistency check.
pub(super) struct StreamPart {
    pub(super) places: Places,
    pub(super) shards: Arc<Shards>,
    pub(super) version: ResourceVersion,
    pub(super) requests: mpsc::Sender<SinkRequest>,
}

/// Locks the streams of an informer.
pub(super) fn lock_streams(streams: &Mutex<RangedStreams>) -> MutexGuard<'_, RangedStreams> {
    // Panics of user code are caught, and those of a source end the informer.
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RangedStream {
    /// Returns whether the main stream may take this one over: it has sent everything up to its version, and no relist is due.
    fn is_complete(&self) -> bool {
        self.is_listed && self.shards.is_steady() && self.requests.capacity() == self.requests.max_capacity()
    }

    fn contains(&self, key: ShardKey, object: &Object) -> bool {
        self.ranges.contains(key.place_of(object.header()))
    }

    fn reach(&mut self, version: &str) {
        if !version.is_empty() {
            self.version = ResourceVersion::new(version);
        }
    }
}

impl RangedStreams {
    pub(super) fn new(
        shared: &Arc<InformerShared>,
        process_loop: ProcessLoop,
        key: ShardKey,
        freed: Arc<Notify>,
    ) -> Self {
        RangedStreams {
            shared: Arc::clone(shared),
            process_loop,
            key,
            wanted: ShardRanges::empty(),
            streams: Vec::new(),
            last_id: 0,
            is_rewatch_requested: false,
            by_place: None,
            removals: HashMap::new(),
            freed,
        }
    }

    fn places(&self, ranges: ShardRanges) -> Places {
        Places { key: self.key, ranges }
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Follows the wanted places: drops what is lost, and returns a stream for what is gained. `prototype` has the key and the server.
    pub(super) fn apply(&mut self, wanted: &ShardRanges, prototype: &Shards) -> Option<NewStream> {
        let lost = self.wanted.difference(wanted);
        self.wanted = wanted.clone();
        if !lost.is_empty() {
            for stream in self.streams.iter_mut().filter(|stream| stream.ranges.intersects(&lost)) {
                stream.ranges = stream.ranges.intersection(wanted);
                stream.shards.shrink(&stream.ranges);
            }
            self.end_streams(|stream| stream.ranges.is_empty());
            // Places are not covered any more before their objects leave the store.
            self.publish_covered();
            let places = self.places(wanted.clone());
            let removed = self.process_loop.remove_outside(&places);
            self.note_removals(removed.iter().map(|object| (object.key().clone(), object.header().version())));
        }
        let started = self.start_side_stream(prototype);
        self.publish();
        started
    }

    /// Adds a stream for the places that have none.
    fn start_side_stream(&mut self, prototype: &Shards) -> Option<NewStream> {
        let held: ShardRanges = self.streams.iter().flat_map(|stream| stream.ranges.iter()).collect();
        let gained = self.wanted.difference(&held);
        if gained.is_empty() || self.streams.len() > MANY_SIDE_STREAMS {
            return None;
        }
        self.last_id += 1;
        let (id, shards) = (self.last_id, Arc::new(prototype.sibling(gained.clone())));
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        self.streams.push(RangedStream {
            id,
            ranges: gained,
            shards: Arc::clone(&shards),
            version: ResourceVersion::new(""),
            is_listed: false,
            requests: sender,
            task: None,
        });
        Some(NewStream { id, shards, requests })
    }

    /// Sets the task of a stream that was started.
    pub(super) fn set_task(&mut self, id: u64, task: AbortHandle) {
        match self.position(id) {
            Some(index) => self.streams[index].task = Some(task),
            None => task.abort(),
        }
    }

    /// Ends streams. Nothing that their reflectors send is accepted any more.
    fn end_streams(&mut self, is_over: impl Fn(&RangedStream) -> bool) {
        for stream in self.streams.extract_if(.., |stream| is_over(stream)) {
            if let Some(task) = stream.task {
                task.abort();
            }
            if let Some(ranged) = &self.shared.ranged {
                ranged.reflector_ended(stream.id);
            }
            self.is_rewatch_requested = false;
            self.freed.notify_one();
        }
    }

    /// Called when a stream is about to request a watch that continues. The main stream takes the complete side streams over.
    pub(super) fn before_watch(&mut self, id: u64) -> WatchStart {
        if self.streams.first().is_none_or(|main| main.id != id) {
            return WatchStart::Here;
        }
        self.is_rewatch_requested = false;
        // What the side streams have sent is in the store then.
        let _ = self.process_loop.flush();
        let (main, sides) = match self.streams.split_first_mut() {
            Some((main, sides)) if main.is_listed => (main, sides),
            _ => return WatchStart::Here,
        };
        let taken: Vec<&RangedStream> = sides.iter().filter(|side| side.is_complete()).collect();
        if taken.is_empty() {
            return WatchStart::Here;
        }
        let versions = || taken.iter().map(|side| &side.version).chain([&main.version]);
        let is_ordered = versions().all(|version| version.compare(&main.version).is_some());
        let lowest = versions().reduce(|low, version| if low.is_newer_than(version) { version } else { low }).cloned();
        let highest = versions().reduce(|high, version| if version.is_newer_than(high) { version } else { high });
        let (lowest, highest) = (lowest.unwrap_or_else(|| main.version.clone()), highest.cloned());
        let reached: Vec<_> = taken
            .iter()
            .map(|side| (side.ranges.clone(), side.version.clone()))
            .chain([(main.ranges.clone(), main.version.clone())])
            .filter(|(_, version)| version.is_newer_than(&lowest))
            .collect();
        let ended: Vec<u64> = taken.iter().map(|side| side.id).collect();
        let ranges: ShardRanges =
            taken.iter().map(|side| &side.ranges).chain([&main.ranges]).flat_map(ShardRanges::iter).collect();
        main.shards.widen(&ranges, reached);
        main.ranges = ranges;
        main.version = lowest.clone();
        let reached = [highest, main.shards.highest_floor()].into_iter().flatten();
        let reached = reached.reduce(|high, version| if version.is_newer_than(&high) { version } else { high });
        self.end_streams(|stream| ended.contains(&stream.id));
        self.publish();
        match reached {
            // Without an order of versions it is not known which events are missing.
            Some(reached) if is_ordered => WatchStart::Earlier { version: lowest, reached },
            _ => WatchStart::Relist,
        }
    }

    /// Has the main stream request its watch again if there are many side streams, some of which it can take over.
    fn request_rewatch(&mut self) {
        let Some((main, sides)) = self.streams.split_first() else { return };
        let is_due = sides.len() >= MANY_SIDE_STREAMS && sides.iter().any(RangedStream::is_complete);
        if is_due && main.is_listed && !self.is_rewatch_requested {
            // A full channel has one already, or a repair that comes first.
            self.is_rewatch_requested = main.requests.try_send(SinkRequest::Rewatch).is_ok();
        }
    }

    /// Applies a delta of a stream.
    pub(super) fn push(&mut self, id: u64, delta: Delta, closed: impl FnOnce() -> SinkError) -> Result<(), SinkError> {
        let Some(index) = self.position(id) else { return Err(closed()) };
        match delta {
            Delta::ReplacedAll { objects, resource_version } => self.replace(index, objects, resource_version),
            Delta::Bookmark(version) => {
                self.streams[index].reach(version.as_str());
                self.process_loop.received(&Delta::Bookmark(version));
            }
            Delta::Deleted(Deleted::Moved { object }) => {
                let _ = self.process_loop.flush();
                let stored = self.shared.table.get(object.key().as_str());
                if stored.is_some_and(|stored| self.streams[index].contains(self.key, &stored)) {
                    self.process_loop.push(Delta::Deleted(Deleted::Moved { object }))?;
                }
            }
            delta => {
                let Some(object) = delta.object() else { return Ok(()) };
                // The places may have changed since the reflector looked.
                let is_inside = self.streams[index].contains(self.key, object);
                self.streams[index].reach(object.resource_version());
                if is_inside && !self.is_overtaken(index, object) {
                    let removal = delta.is_deleted().then(|| (object.key().clone(), object.header().version()));
                    self.note_removals(removal);
                    self.process_loop.push(delta)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether another stream has stored a newer object of that name. Without a key by name that is possible: an object that is
    /// deleted and created again has another place, whose stream may be ahead.
    fn is_overtaken(&mut self, index: usize, object: &Object) -> bool {
        let is_alone = self.streams.len() == 1 && self.streams[index].shards.highest_floor().is_none();
        if self.key.is_by_name() || is_alone {
            return false;
        }
        let _ = self.process_loop.flush();
        let stored = self.shared.table.get(object.key().as_str()).map(|stored| stored.header().version());
        let removed = self.removals.get(object.key());
        stored.iter().chain(removed).any(|newest| !object.header().version().is_newer_than(newest))
    }

    /// Records removals, for as long as a stream may repeat what was before.
    fn note_removals(&mut self, removals: impl IntoIterator<Item = (ObjectKey, ResourceVersion)>) {
        let is_replaying = || self.streams.first().is_some_and(|main| main.shards.highest_floor().is_some());
        if !self.key.is_by_name() && (self.streams.len() > 1 || is_replaying()) {
            self.removals.extend(removals);
        }
    }

    /// Applies a list of a stream.
    fn replace(&mut self, index: usize, mut objects: Vec<Object>, resource_version: ResourceVersion) {
        let (key, stream) = (self.key, &self.streams[index]);
        objects.retain(|object| stream.contains(key, object));
        if !key.is_by_name() && self.streams.len() > 1 {
            let _ = self.process_loop.flush();
            // What another stream has stored after this list stays.
            let is_newer_elsewhere = |object: &Object| {
                let stored = self.shared.table.get(object.key().as_str());
                let stored =
                    stored.filter(|stored| !stream.contains(key, stored)).map(|stored| stored.header().version());
                let removed = self.removals.get(object.key());
                stored.iter().chain(removed).any(|newest| newest.is_newer_than(&resource_version))
            };
            objects.retain(|object| !is_newer_elsewhere(object));
        }
        let (places, initial) = (self.places(stream.ranges.clone()), !stream.is_listed);
        let list = Delta::ReplacedAll { objects, resource_version: resource_version.clone() };
        let removed = self.process_loop.replace_places(&places, list, initial);
        self.note_removals(removed.iter().map(|object| (object.key().clone(), resource_version.clone())));
        let stream = &mut self.streams[index];
        stream.is_listed = true;
        stream.version = resource_version;
        if index == 0 {
            // The requests before the list are void.
            self.is_rewatch_requested = false;
        }
        self.publish();
    }

    /// Makes everything visible that was pushed.
    pub(super) fn flush(&mut self) -> Result<(), SinkError> {
        self.process_loop.flush()?;
        self.publish();
        self.request_rewatch();
        Ok(())
    }

    /// Redelivers the objects to the handlers that are due.
    pub(super) fn resync(&mut self) {
        // The process loop accepts everything.
        let _ = self.process_loop.push(Delta::SyncAll).and_then(|()| self.process_loop.flush());
    }

    /// Deletes all objects: the kind is not served any more.
    pub(super) fn remove_all(&mut self) {
        let places = self.places(ShardRanges::full());
        let list = Delta::ReplacedAll { objects: Vec::new(), resource_version: self.shared.table.version() };
        let _ = self.process_loop.replace_places(&places, list, false);
    }

    /// Publishes the version of the store, which is that of the slowest stream, and the places that it covers.
    fn publish(&mut self) {
        let listed = || self.streams.iter().filter(|stream| stream.is_listed);
        let lowest = listed().map(|stream| &stream.version);
        let lowest = lowest.reduce(|low, version| if low.is_newer_than(version) { version } else { low });
        // An event of one place says nothing about those of a slower stream. Only namespaces tell the places of keys here.
        let is_divided = self.key == ShardKey::Namespace && listed().count() > 1;
        let version_of = |stream: &RangedStream| (stream.ranges.clone(), stream.version.clone());
        let by_place = is_divided.then(|| PlaceVersions(listed().map(version_of).collect()));
        if let Some(lowest) = lowest
            && (*lowest != self.shared.table.version() || by_place != self.by_place)
        {
            let _ = self.process_loop.flush();
            self.shared.table.set_versions(lowest.clone(), by_place.clone());
            self.by_place = by_place;
            if !self.removals.is_empty() {
                let lowest = lowest.clone();
                self.removals.retain(|_, version| version.is_newer_than(&lowest));
            }
        }
        self.publish_covered();
    }

    fn publish_covered(&self) {
        let Some(ranged) = &self.shared.ranged else { return };
        let listed = self.streams.iter().filter(|stream| stream.is_listed);
        let covered: ShardRanges = listed.flat_map(|stream| stream.ranges.iter()).collect();
        let is_complete = covered.covers(&self.wanted);
        ranged.set_covered(covered);
        if is_complete && !self.shared.lifecycle().synced {
            self.shared.set_synced(Instant::now());
        }
    }

    pub(super) fn stream_ids(&self) -> Vec<u64> {
        self.streams.iter().map(|stream| stream.id).collect()
    }

    /// Returns a stream for a consistency check, with everything that it has sent in the store. `None` if its part of the store is not
    /// exactly of its version.
    pub(super) fn checked_part(&mut self, id: u64) -> Option<StreamPart> {
        let index = self.position(id)?;
        let _ = self.process_loop.flush();
        let stream = &self.streams[index];
        if !stream.is_listed || stream.shards.highest_floor().is_some() {
            return None;
        }
        Some(StreamPart {
            places: self.places(stream.ranges.clone()),
            shards: Arc::new(stream.shards.sibling(stream.ranges.clone())),
            version: stream.version.clone(),
            requests: stream.requests.clone(),
        })
    }
}
