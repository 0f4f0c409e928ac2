//! [`ControllerShards`]: the part of a controller that this replica works on, in a ring.
//!
//! The queue decides which keys are reconciled. Keys of held places are handed out; those of places that the caches cover already are
//! held back, so that no deletion is missed while a range moves here; all others are refused.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_cache::source::BoxFuture;
use evenkeel_client::{Client, ObservedWrite, WriteResult};
use evenkeel_core::shard::{ShardKey, ShardRange, ShardRanges, place};
use evenkeel_core::status::qualified;
use evenkeel_core::{ObjectKey, ResourceInfo, ResourceVersion};
use evenkeel_queue::{AddOptions, LOW_PRIORITY, SuspendedAdds, Suspension, WorkQueue};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::shard_writes::ShardWrites;
use super::watched_kinds::WatchedKinds;
use crate::ring::{Grant, RangeWrites, RingFence, RingHandle, ShardBy, ShardedWork};

/// How long a range waits for what its previous owner wrote, if own writes are not awaited.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(10);

/// What decides the place of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyPlaces {
    key: ShardKey,
}

impl KeyPlaces {
    /// Returns what decides the place of the keys of a kind, or why nothing does.
    pub(super) fn of(shard_by: ShardBy, info: &ResourceInfo) -> Result<Self, String> {
        let key = match shard_by {
            ShardBy::Namespace => ShardKey::Namespace.of_kind(info),
            ShardBy::Key => ShardKey::Key,
            ShardBy::Uid => {
                let kind = info.kind();
                return Err(format!(
                    "a controller of {kind} cannot be divided by uid, because its queue has names: divide it with \
                     `ShardBy::Key`, which spreads the objects as evenly"
                ));
            }
        };
        if key == ShardKey::Namespace && !info.namespaced() {
            let kind = info.kind();
            return Err(format!("{kind} has no namespace: divide its objects with `ShardBy::Key`"));
        }
        Ok(KeyPlaces { key })
    }

    /// Returns the key by which the caches of another kind follow the ring. `None`: they have all objects.
    pub(super) fn of_other_kind(self, info: &ResourceInfo) -> Option<ShardKey> {
        let follows = matches!(self.key, ShardKey::Namespace | ShardKey::Name) && info.namespaced();
        follows.then_some(ShardKey::Namespace)
    }

    /// Returns the key by which the caches of the controller's own kind follow the ring.
    pub(super) fn of_own_kind(self) -> ShardKey {
        self.key
    }

    pub(super) fn place(self, key: &ObjectKey) -> u64 {
        match self.key {
            ShardKey::Namespace => place(key.namespace().unwrap_or_default()),
            ShardKey::Name => place(key.name()),
            _ => place(key.as_str()),
        }
    }
}

/// A controller that is divided.
pub(super) struct ShardedController {
    pub(super) controller: String,
    pub(super) client: Client,
    /// The namespace that the controller is restricted to, or empty.
    pub(super) namespace: String,
    pub(super) ring: RingHandle,
    pub(super) places: KeyPlaces,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) kinds: Arc<WatchedKinds>,
    /// How long the caches may take to show what the previous owner wrote.
    pub(super) own_writes: Option<Duration>,
}

/// The part of a controller that this replica works on.
pub(super) struct ControllerShards {
    of: ShardedController,
    writes: ShardWrites,
    state: Mutex<ShardState>,
    /// The ranges whose reconciles should return early.
    cancelled: watch::Sender<ShardRanges>,
}

#[derive(Default)]
struct ShardState {
    wanted: ShardRanges,
    held: ShardRanges,
    /// Ranges that have no work any more, until they are granted again.
    stopped: ShardRanges,
    /// Grants that wait for the caches.
    pending: Vec<PendingGrant>,
    last_grant: u64,
    suspensions: Option<(Suspension<ObjectKey>, Suspension<ObjectKey>)>,
}

struct PendingGrant {
    number: u64,
    ranges: ShardRanges,
}

impl ControllerShards {
    pub(super) fn new(of: ShardedController) -> Arc<Self> {
        let shards = Arc::new(ControllerShards {
            of,
            writes: ShardWrites::default(),
            state: Mutex::default(),
            cancelled: watch::Sender::new(ShardRanges::empty()),
        });
        shards.suspend(&mut shards.lock());
        shards
    }

    fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the queue hand out the keys of held places only.
    fn suspend(&self, state: &mut ShardState) {
        let places = self.of.places;
        let held = state.held.clone();
        let prepared = state.wanted.difference(&state.stopped).difference(&held);
        let kept = held.union(&prepared);
        let refused = self.of.queue.suspend(SuspendedAdds::Refuse, move |key| !kept.contains(places.place(key)));
        let waiting = self.of.queue.suspend(SuspendedAdds::Hold, move |key| prepared.contains(places.place(key)));
        // The old ones are dropped after the new ones are in effect.
        state.suspensions = Some((refused, waiting));
    }

    /// Returns the fence of a key for external stores.
    pub(super) fn fence(&self, key: &ObjectKey) -> Option<RingFence> {
        self.of.ring.fence(self.of.places.place(key))
    }

    /// Records a write of a reconcile for the next owner of its key.
    pub(super) fn wrote(&self, key: &ObjectKey, write: &ObservedWrite<'_>) {
        let (place, now) = (self.of.places.place(key), Instant::now());
        match write.result {
            WriteResult::Stored(header) => {
                let resource = qualified(write.resource.group(), write.resource.plural());
                self.writes.add(place, &resource, header.resource_version(), now);
            }
            WriteResult::Unknown => self.writes.loosen(place, now),
            // The version of a deletion is not known.
            _ => {}
        }
    }

    /// Runs a reconcile while this replica holds its key. `None`: it did not start, or was dropped.
    pub(super) async fn guard<F: Future>(&self, key: &ObjectKey, reconcile: F) -> Option<F::Output> {
        let place = self.of.places.place(key);
        let outcome = self.of.ring.guard(place, reconcile).await;
        if outcome.is_none() {
            self.writes.loosen(place, Instant::now());
        }
        outcome
    }

    /// Waits while the Lease of this replica is not valid. Returns whether it holds the key.
    pub(super) async fn may_start(&self, key: &ObjectKey) -> bool {
        self.of.ring.may_start(self.of.places.place(key)).await
    }

    /// Waits until a key should not be reconciled any longer: its range moves, or the Lease of this replica lapses.
    pub(super) async fn cancelled(&self, key: &ObjectKey) {
        let place = self.of.places.place(key);
        let mut cancelled = self.cancelled.subscribe();
        tokio::select! {
            biased;
            // The sender is a field of `self`, so this does not fail.
            _ = cancelled.wait_for(|ranges| ranges.contains(place)) => {}
            () = self.of.ring.lapsed() => {}
        }
    }

    pub(super) fn is_cancelled(&self, key: &ObjectKey) -> bool {
        let place = self.of.places.place(key);
        self.cancelled.borrow().contains(place) || !self.of.ring.is_valid()
    }

    /// Revokes the grants of a range. Returns with no key of it being handed out.
    fn revoke(&self, range: ShardRange) {
        let range = ShardRanges::from(range);
        let mut state = self.lock();
        for pending in &mut state.pending {
            pending.ranges = pending.ranges.difference(&range);
        }
        state.pending.retain(|pending| !pending.ranges.is_empty());
        state.held = state.held.difference(&range);
        state.stopped = state.stopped.union(&range);
        self.suspend(&mut state);
        drop(state);
        let places = self.of.places;
        self.of.queue.remove_if(move |key| range.contains(places.place(key)));
    }

    fn pend(&self, range: ShardRange) -> u64 {
        let mut state = self.lock();
        state.last_grant += 1;
        let number = state.last_grant;
        let ranges = ShardRanges::from(range);
        state.stopped = state.stopped.difference(&ranges);
        state.pending.push(PendingGrant { number, ranges: ranges.clone() });
        self.suspend(&mut state);
        drop(state);
        self.cancelled.send_modify(|cancelled| *cancelled = cancelled.difference(&ranges));
        number
    }

    /// Starts the ranges of a grant that were not revoked meanwhile.
    fn open(&self, number: u64) {
        let mut state = self.lock();
        let Some(at) = state.pending.iter().position(|pending| pending.number == number) else { return };
        let ranges = state.pending.swap_remove(at).ranges;
        state.held = state.held.union(&ranges);
        self.suspend(&mut state);
        drop(state);
        let Some(primary) = self.of.kinds.primary() else { return };
        let places = self.of.places;
        let keys = primary.keys().into_iter().filter(|key| ranges.contains(places.place(key)));
        // The previous owner's backoffs, delays and priorities do not move.
        self.of.queue.add_all(keys, AddOptions::new().priority(LOW_PRIORITY));
    }

    /// Waits until the caches show what the previous owner wrote.
    async fn follow_predecessor(&self, grant: &Grant) {
        if !grant.is_prepared() {
            return;
        }
        let limit = self.of.own_writes.unwrap_or(PREDECESSOR_LIMIT);
        let shown = async {
            match grant.predecessor_writes().await {
                Some(versions) => {
                    for kind in self.of.kinds.all() {
                        if let Some(version) = versions.get(&kind.resource()) {
                            kind.shows(&ResourceVersion::new(&version.to_string())).await;
                        }
                    }
                }
                None => {
                    for kind in self.of.kinds.all() {
                        kind.shows_newest(&self.of.client, &self.of.namespace).await;
                    }
                }
            }
        };
        if timeout(limit, shown).await.is_err() {
            let (controller, range) = (&*self.of.controller, grant.range());
            tracing::warn!(
                controller,
                ?range,
                ?limit,
                "caches do not show the previous owner's writes; starting anyway"
            );
        }
    }
}

impl ShardedWork for ControllerShards {
    fn want(&self, wanted: &ShardRanges) {
        let mut state = self.lock();
        state.wanted = wanted.clone();
        state.stopped = state.stopped.intersection(wanted);
        self.suspend(&mut state);
    }

    fn start(self: Arc<Self>, grant: Arc<Grant>) -> BoxFuture<'static, ()> {
        let number = self.pend(grant.range());
        Box::pin(async move {
            self.follow_predecessor(&grant).await;
            self.open(number);
        })
    }

    fn stop(self: Arc<Self>, range: ShardRange, cancel_at: Instant) -> BoxFuture<'static, RangeWrites> {
        self.revoke(range);
        let places = self.of.places;
        let running = self.of.queue.in_flight(move |key| range.contains(places.place(key)));
        Box::pin(async move {
            let mut running = std::pin::pin!(running);
            if timeout_at(cancel_at, &mut running).await.is_err() {
                self.cancelled.send_modify(|cancelled| *cancelled = cancelled.union(&range.into()));
                running.await;
            }
            let versions: BTreeMap<String, u64> = self.writes.in_range(range, Instant::now());
            RangeWrites { versions, is_loose: self.writes.is_loose(range) }
        })
    }

    fn lose(&self, range: ShardRange) {
        self.revoke(range);
    }

    fn places(&self) -> Vec<u64> {
        let keys = self.of.kinds.primary().map(|kind| kind.keys()).unwrap_or_default();
        keys.iter().map(|key| self.of.places.place(key)).collect()
    }
}

impl fmt::Debug for ControllerShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("ControllerShards")
            .field("places", &self.of.places)
            .field("wanted", &state.wanted)
            .field("held", &state.held)
            .finish_non_exhaustive()
    }
}
