//! [`Shards`]: the places that an informer is for, and what is known of the server's part in selecting them.
//!
//! The reflector drops every object out of range itself. The selector in its requests saves the server's encoding, the network and the
//! decoding; nothing depends on whether the server honours it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::shard::{ShardKey, ShardRanges, ShardSelector};
use evenkeel_core::status::qualified;
use evenkeel_core::{Header, ResourceInfo, ResourceVersion, Status};
use tokio::time::Instant;

use crate::metrics::ShardMetrics;
use crate::source::SourceError;

/// How long requests have no selector after a server has refused it.
const WITHDRAWN: Duration = Duration::from_secs(600);

/// Whether the server filters, as far as its responses tell. Servers of one cluster may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShardSupport {
    /// Lists of some kinds and all watches do not tell.
    #[default]
    Unknown,
    /// A list has told the selector of its request.
    Confirmed,
    /// An object arrived that the request does not select.
    Absent,
}

/// The places of the objects of a reflector.
///
/// Those of `InformerOptions::shards` never change, and the reflectors of the informer share them. With a
/// [`ShardScope`](crate::ShardScope), each reflector has its own, which the informer changes while the reflector runs: they shrink at any
/// time, and grow only before a watch is requested.
#[derive(Debug)]
pub(crate) struct Shards {
    key: ShardKey,
    selection: Mutex<Selection>,
    server: Arc<ServerSupport>,
    /// The reflector watches, and neither relists nor is about to: what it has sent is complete up to its version.
    is_steady: AtomicBool,
}

#[derive(Debug)]
struct Selection {
    ranges: ShardRanges,
    /// What requests send; `None` if all places are selected, or the server cannot select by this key.
    requested: Option<ShardSelector>,
    /// The versions that the objects of some places have reached already. Events up to them are repetitions.
    floors: Vec<(ShardRanges, ResourceVersion)>,
}

/// What is known of the server's part. The reflectors of an informer share it.
#[derive(Debug)]
struct ServerSupport {
    /// The name of the resource in logs.
    resource: String,
    metrics: ShardMetrics,
    state: Mutex<SupportState>,
}

#[derive(Debug, Default)]
struct SupportState {
    support: ShardSupport,
    /// Requests have no selector until then.
    withdrawn_until: Option<Instant>,
}

/// The shard selector of one request: a list with all its pages, or a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestShards {
    /// `None` if the request has none.
    pub(super) sent: Option<ShardSelector>,
    /// The number of objects that were dropped.
    pub(super) dropped: usize,
    /// Whether an object arrived that the request does not select.
    is_unfiltered: bool,
}

impl Selection {
    fn new(key: ShardKey, ranges: ShardRanges) -> Self {
        let requested = key.field().and_then(|field| ShardSelector::new(field, ranges.clone()).requested());
        Selection { ranges, requested, floors: Vec::new() }
    }
}

impl Shards {
    /// Returns the places of a selector.
    pub(crate) fn new(selector: ShardSelector, resource: &ResourceInfo) -> Self {
        Shards::by(selector.field().into(), selector.ranges().clone(), resource)
    }

    /// Returns places by any key.
    pub(crate) fn by(key: ShardKey, ranges: ShardRanges, resource: &ResourceInfo) -> Self {
        let resource = qualified(resource.group(), resource.plural());
        let metrics = ShardMetrics::new(&resource);
        let server = Arc::new(ServerSupport { resource, metrics, state: Mutex::default() });
        Shards { key, selection: Mutex::new(Selection::new(key, ranges)), server, is_steady: AtomicBool::new(false) }
    }

    /// Returns other places by the same key, of the same server.
    pub(crate) fn sibling(&self, ranges: ShardRanges) -> Self {
        let selection = Mutex::new(Selection::new(self.key, ranges));
        Shards { key: self.key, selection, server: Arc::clone(&self.server), is_steady: AtomicBool::new(false) }
    }

    /// Returns the key by which objects have places.
    pub(crate) fn key(&self) -> ShardKey {
        self.key
    }

    /// Removes places. The request in progress continues, and its objects of these places are dropped.
    pub(crate) fn shrink(&self, ranges: &ShardRanges) {
        let mut selection = self.lock();
        let floors = std::mem::take(&mut selection.floors);
        *selection = Selection { floors, ..Selection::new(self.key, ranges.clone()) };
    }

    /// Adds places, whose objects have reached these versions. No request is in progress.
    pub(crate) fn widen(
        &self,
        ranges: &ShardRanges,
        reached: impl IntoIterator<Item = (ShardRanges, ResourceVersion)>,
    ) {
        let mut selection = self.lock();
        let floors = std::mem::take(&mut selection.floors).into_iter().chain(reached).collect();
        *selection = Selection { floors, ..Selection::new(self.key, ranges.clone()) };
    }

    /// Returns the highest version that objects of some places have reached before the reflector.
    pub(crate) fn highest_floor(&self) -> Option<ResourceVersion> {
        let selection = self.lock();
        let versions = selection.floors.iter().map(|(_, version)| version);
        versions.reduce(|highest, version| if version.is_newer_than(highest) { version } else { highest }).cloned()
    }

    /// Returns whether the reflector repeats the event that led to this state, or one before.
    pub(super) fn is_repeated(&self, object: &Header) -> bool {
        let selection = self.lock();
        if selection.floors.is_empty() {
            return false;
        }
        let (place, version) = (self.key.place_of(object), object.version());
        selection.floors.iter().any(|(ranges, floor)| ranges.contains(place) && !version.is_newer_than(floor))
    }

    /// Records the version that the reflector has reached: nothing up to it is repeated.
    pub(super) fn reached(&self, version: &str) {
        let mut selection = self.lock();
        if !selection.floors.is_empty() {
            let version = ResourceVersion::new(version);
            selection.floors.retain(|(_, floor)| floor.is_newer_than(&version));
        }
    }

    /// Records a complete list: it is not older than what objects had reached.
    pub(super) fn relisted(&self) {
        self.lock().floors.clear();
    }

    /// Records whether what the reflector has sent is complete up to its version, and will be.
    pub(super) fn set_steady(&self, is_steady: bool) {
        self.is_steady.store(is_steady, Ordering::Relaxed);
    }

    /// Returns whether what the reflector has sent is complete up to its version.
    pub(crate) fn is_steady(&self) -> bool {
        self.is_steady.load(Ordering::Relaxed)
    }

    /// Returns the selector of a new request.
    pub(super) fn request(&self, now: Instant) -> RequestShards {
        self.server.metrics.register();
        RequestShards { sent: self.requested(now), ..RequestShards::default() }
    }

    /// Returns the selector that requests have now.
    pub(crate) fn requested(&self, now: Instant) -> Option<ShardSelector> {
        let is_withdrawn = self.server.lock().withdrawn_until.is_some_and(|until| now < until);
        self.lock().requested.clone().filter(|_| !is_withdrawn)
    }

    /// Returns whether an object is in range.
    pub(crate) fn admits(&self, object: &Header) -> bool {
        let selection = self.lock();
        selection.ranges.is_full() || selection.ranges.contains(self.key.place_of(object))
    }

    /// Records an object that is not in range.
    pub(super) fn dropped(&self, object: &Header, request: &mut RequestShards) {
        request.dropped += 1;
        self.server.metrics.dropped();
        // The request may select more places than the informer is for.
        if !request.is_unfiltered && request.sent.as_ref().is_some_and(|sent| !sent.matches(object)) {
            request.is_unfiltered = true;
            self.server.set(ShardSupport::Absent);
        }
    }

    /// Records the end of a list or page, and the selector that it tells.
    pub(super) fn told(&self, selector: Option<&str>, request: &RequestShards) {
        let told = selector.and_then(|text| text.parse::<ShardSelector>().ok());
        if told.is_some() && told == request.sent && !request.is_unfiltered {
            self.server.set(ShardSupport::Confirmed);
        }
    }

    /// Records that the objects of a list or WatchList are complete.
    pub(super) fn completed(&self, request: &RequestShards) {
        let is_filtered = request.sent.is_some() && !request.is_unfiltered;
        if is_filtered && self.server.lock().support == ShardSupport::Absent {
            self.server.set(ShardSupport::Unknown);
        }
    }

    /// Returns whether a failure is about the selector of the request. Later requests have none for a while.
    pub(crate) fn refused(&self, error: &SourceError, sent: Option<&ShardSelector>, now: Instant) -> bool {
        if sent.is_none() || !error.status().is_some_and(is_about_shards) {
            return false;
        }
        self.server.lock().withdrawn_until = now.checked_add(WITHDRAWN);
        tracing::warn!(resource = &*self.server.resource, %error, retry_in = ?WITHDRAWN, "shard selector refused; continuing without it");
        self.server.change(ShardSupport::Unknown);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Selection> {
        // Nothing panics while the lock is held.
        self.selection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerSupport {
    /// Returns whether the support is another one than before.
    fn change(&self, support: ShardSupport) -> bool {
        let is_new = std::mem::replace(&mut self.lock().support, support) != support;
        if is_new {
            self.metrics.support(support);
        }
        is_new
    }

    fn set(&self, support: ShardSupport) {
        if !self.change(support) {
            return;
        }
        let resource = &*self.resource;
        match support {
            ShardSupport::Unknown => tracing::info!(resource, "not known whether the server filters by shard selector"),
            ShardSupport::Confirmed => tracing::info!(resource, "the server filters by shard selector"),
            ShardSupport::Absent => {
                tracing::info!(resource, "the server does not filter by shard selector; dropping objects out of range");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SupportState> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a Status is the refusal of a shard selector. A malformed one is an internal error of kube-apiserver.
fn is_about_shards(status: &Status) -> bool {
    matches!(status.code, 400 | 422 | 500) && status.message.to_ascii_lowercase().contains("shard")
}

#[cfg(test)]
mod tests;
