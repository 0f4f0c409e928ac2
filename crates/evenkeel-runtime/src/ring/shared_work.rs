//! [`WorkingRing`]: a ring for work that has caches: they follow the wanted ranges, and the work follows the grants.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::task::scheduled;
use evenkeel_cache::source::BoxFuture;
use evenkeel_cache::{ShardScope, ShardScopeError};
use evenkeel_core::shard::{ShardRange, ShardRanges};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Drain, Grant, Ring, RingError, RingHandle, SliceEvent, SliceLoad, Slices};

/// How often the load of the slices is measured.
const MEASURED_EVERY: Duration = Duration::from_secs(5);

/// Work that is divided by places.
pub(crate) trait ShardedWork: Send + Sync + 'static {
    /// Prepares for the objects of these places, and of no others.
    fn want(&self, wanted: &ShardRanges);

    /// Starts the work of a range once the caches show what the previous owner wrote. [`stop`](Self::stop) and [`lose`](Self::lose)
    /// revoke it, also before it has started.
    fn start(self: Arc<Self>, grant: Arc<Grant>) -> BoxFuture<'static, ()>;

    /// Starts nothing of the range any more, at once. The future ends with the last work, and returns what was written.
    fn stop(self: Arc<Self>, range: ShardRange, cancel_at: Instant) -> BoxFuture<'static, RangeWrites>;

    /// Forgets the range. Its work is not polled any more.
    fn lose(&self, range: ShardRange);

    /// Returns the place of each object that there is work for.
    fn places(&self) -> Vec<u64>;
}

/// What was written in a range, for its next owner.
#[derive(Debug, Default)]
pub(crate) struct RangeWrites {
    /// The highest versions by resource.
    pub(crate) versions: BTreeMap<String, u64>,
    /// Whether there are writes whose outcome is not known.
    pub(crate) is_loose: bool,
}

/// A ring, and the scope of the caches that follow it.
pub(crate) struct WorkingRing {
    ring: Ring,
    scope: ShardScope,
}

impl WorkingRing {
    pub(crate) fn new(ring: Ring) -> Self {
        WorkingRing { ring: ring.covered_by_caller(), scope: ShardScope::new(ShardRanges::empty()) }
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn scope(&self) -> &ShardScope {
        &self.scope
    }

    /// Joins the ring and divides the work until `shutdown` completes and the ring has been left.
    pub(crate) async fn run<T>(
        &self,
        work: Arc<dyn ShardedWork>,
        shutdown: impl Future<Output = T>,
    ) -> Result<(), RingError> {
        let (slices, handle) = (self.ring.slices(), self.ring.handle());
        let caches = follow(&handle, &self.scope, &work);
        let divided = async {
            tokio::join!(biased; divide(&work, slices), caches, measure(&handle, &work));
        };
        tokio::select! {
            biased;
            ended = self.ring.run(shutdown) => ended,
            // The caches are followed for ever.
            () = divided => Ok(()),
        }
    }
}

impl fmt::Debug for WorkingRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkingRing").field(&self.ring).finish()
    }
}

/// Reports how many objects each slice of this member has, and where it can be divided.
async fn measure(handle: &RingHandle, work: &Arc<dyn ShardedWork>) {
    loop {
        sleep(MEASURED_EVERY).await;
        let slices = handle.own_slices();
        if slices.is_empty() {
            continue;
        }
        let mut places = work.places();
        places.sort_unstable();
        handle.report_load(slices.into_iter().map(|slice| load_of(slice, &places)).collect());
    }
}

/// Returns the load of a slice. `places` is sorted.
fn load_of(slice: ShardRange, places: &[u64]) -> SliceLoad {
    let from = places.partition_point(|place| *place < slice.start());
    let to = places.partition_point(|place| u128::from(*place) < slice.end());
    let inside = places.get(from..to).unwrap_or_default();
    SliceLoad { start: slice.start(), objects: inside.len() as u64, busy: 0.0, median: divider(inside) }
}

/// Returns the place from which on about half of the sorted places are. `None` if all are equal.
fn divider(places: &[u64]) -> Option<u64> {
    let middle = *places.get(places.len() / 2)?;
    let before = places.partition_point(|place| *place < middle);
    let through = places.partition_point(|place| *place <= middle);
    // One place may have most of the objects. It is divided from what is before it, or from what is behind it.
    let is_possible = |left: &usize| *left > 0 && *left < places.len();
    let left = [before, through].into_iter().filter(is_possible).min_by_key(|left| left.abs_diff(places.len() / 2))?;
    places.get(left).copied()
}

/// Has the caches follow the wanted ranges, and reports what they cover.
async fn follow(handle: &RingHandle, scope: &ShardScope, work: &Arc<dyn ShardedWork>) {
    let mut wanted = handle.wanted();
    loop {
        let ranges = wanted.borrow_and_update().clone();
        // First, so that the events of new objects are not refused.
        work.want(&ranges);
        scope.set(ranges.clone());
        let covered = tokio::select! {
            biased;
            _ = wanted.changed() => continue,
            covered = scope.wait_until_covered(&ranges) => covered,
        };
        match covered {
            Ok(()) => handle.cover(ranges),
            Err(error @ ShardScopeError::Stopped { .. }) => {
                // The controller ends with the informer.
                tracing::warn!(%error, "caches do not follow the ring");
            }
            Err(_) => {}
        }
        // The sender lives as long as the handle.
        let _ = wanted.changed().await;
    }
}

/// Passes the changes of the ring to the work.
async fn divide(work: &Arc<dyn ShardedWork>, mut slices: Slices) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            event = slices.next() => match event {
                Some(SliceEvent::Granted(grant)) => {
                    let started = Arc::clone(work).start(Arc::new(grant));
                    tasks.spawn(scheduled(started));
                }
                Some(SliceEvent::Draining(drain)) => {
                    let stopped = Arc::clone(work).stop(drain.range(), drain.cancel_at());
                    tasks.spawn(scheduled(release(drain, stopped)));
                }
                Some(SliceEvent::Lost { range }) => work.lose(range),
                None => return,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Releases a range when its work has ended.
async fn release(mut drain: Drain, stopped: BoxFuture<'static, RangeWrites>) {
    let writes = stopped.await;
    for (resource, version) in writes.versions {
        drain.written(resource, version);
    }
    if writes.is_loose {
        drain.loose();
    }
}

impl Grant {
    /// Returns whether the caches had the range, or parts of it, while another member worked on it. Otherwise they have listed it after
    /// all other members had stopped.
    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared
    }
}

impl Drain {
    /// Returns when running work should be cancelled.
    pub(crate) fn cancel_at(&self) -> Instant {
        self.cancel_at
    }
}

impl RingHandle {
    /// Returns the slices that the newest table gives to this member.
    fn own_slices(&self) -> Vec<ShardRange> {
        let view = self.shared.view.borrow();
        let (Some(table), Some(member)) = (&view.table, &view.member) else { return Vec::new() };
        table.iter().filter(|(_, state)| state.owner() == Some(member)).map(|(range, _)| range).collect()
    }

    /// Returns whether the Lease of this member is valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.shared.is_valid()
    }

    /// Waits until the Lease of this member is not valid.
    pub(crate) async fn lapsed(&self) {
        let mut changes = self.shared.view.subscribe();
        loop {
            let valid_until = changes.borrow_and_update().valid_until.unwrap_or_default();
            let Some(left) = valid_until.checked_sub(self.shared.clock.now()).filter(|left| !left.is_zero()) else {
                return;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep(left) => {}
                // The sender lives as long as the handle.
                _ = changes.changed() => {}
            }
        }
    }

    /// Waits until this member holds a place and may start work, or does not hold it. Returns whether it does.
    pub(crate) async fn may_start(&self, place: u64) -> bool {
        let mut changes = self.shared.view.subscribe();
        loop {
            let holds = changes.borrow_and_update().work_at(place).is_some_and(|work| !work.is_draining);
            if !holds || self.is_owned(place) {
                return holds;
            }
            // The sender lives as long as the handle.
            let _ = changes.changed().await;
        }
    }
}

#[cfg(test)]
mod tests;
