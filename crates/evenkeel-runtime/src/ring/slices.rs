//! [`Slices`]: the ranges that this process gains and loses, as a stream.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::shard::ShardRange;
use tokio::time::Instant;

use super::lease_store::LeaseStore;
use super::member::{MemberOperation, MemberResponse};
use super::member_record::WrittenVersions;
use super::shared::RingShared;
use super::table::MemberName;

/// A change of the ranges that this process works on.
#[derive(Debug)]
#[non_exhaustive]
pub enum SliceEvent {
    /// Work on the range may start.
    Granted(Grant),
    /// The range moves to another member. Work that runs may finish; none may start. Dropping the guard releases the range.
    Draining(Drain),
    /// The range is no longer this member's, and its work is not polled again: it was released, or the membership was lost.
    Lost {
        /// The range: the whole of a granted range, or a part.
        range: ShardRange,
    },
}

/// A range that was granted to this process.
pub struct Grant {
    pub(super) range: ShardRange,
    pub(super) epoch: u64,
    pub(super) predecessor: Option<MemberName>,
    /// Caches may have had the range while another member worked on it.
    pub(super) is_prepared: bool,
    pub(super) store: LeaseStore,
}

impl Grant {
    /// Returns the range.
    pub fn range(&self) -> ShardRange {
        self.range
    }

    /// Returns the epoch: higher than that of any earlier owner of a place in the range.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Reads the highest resource versions that the previous owner wrote in the range, by resource. A cache that has reached them
    /// shows all of its writes.
    ///
    /// `None`: they are unknown, because the previous owner failed, or left writes behind whose outcome it did not know. Then only
    /// a consistent list that starts now shows all writes.
    pub async fn predecessor_writes(&self) -> Option<BTreeMap<String, u64>> {
        let answer = self.store.member(self.predecessor.as_deref()?, MemberOperation::Read).await.ok()?;
        let MemberResponse::Lease { lease, .. } = answer else { return None };
        // It was out before it had released the range: what it wrote last is not in its Lease.
        if lease.fenced.is_some() {
            return None;
        }
        let mut versions = BTreeMap::new();
        for written in lease.record.written.iter().filter(|written| written.range.intersection(self.range).is_some()) {
            if written.loose {
                return None;
            }
            for (resource, version) in &written.versions {
                let known: &mut u64 = versions.entry(resource.clone()).or_default();
                *known = (*known).max(*version);
            }
        }
        Some(versions)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("range", &self.range).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// A range that this process has to release. Dropping it releases the range, once guarded futures of the range have ended too.
///
/// At the drain limit the range is released without it, and guarded futures are dropped.
#[must_use = "dropping it releases the range"]
pub struct Drain {
    pub(super) number: u64,
    pub(super) written: WrittenVersions,
    pub(super) shared: Arc<RingShared>,
    /// When running work should be cancelled.
    pub(super) cancel_at: Instant,
}

impl Drain {
    /// Returns the range.
    pub fn range(&self) -> ShardRange {
        self.written.range
    }

    /// Adds the highest resource version of a resource, such as `deployments.apps`, that this process has written in the range in
    /// the last ten minutes. The next owner waits until its cache has reached it.
    pub fn written(&mut self, resource: impl Into<String>, version: u64) {
        let known = self.written.versions.entry(resource.into()).or_default();
        *known = (*known).max(version);
    }

    /// Notes that writes were sent whose outcome is not known. The next owner lists anew.
    pub fn loose(&mut self) {
        self.written.loose = true;
    }

    /// Completes when running work should be cancelled: at once with `cancel_on_move`, else at half of the drain limit.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        tokio::time::sleep_until(self.cancel_at)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let range = self.written.range;
        let empty = WrittenVersions { range, versions: BTreeMap::new(), loose: false };
        let released = (self.number, std::mem::replace(&mut self.written, empty));
        self.shared.report(|reports| reports.released.push(released));
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("range", &self.range()).finish_non_exhaustive()
    }
}

/// The ranges that this process gains and loses. See [`Ring::slices`](super::Ring::slices).
///
/// Dropping it releases ranges that drain as soon as their guarded futures have ended.
#[derive(Debug)]
pub struct Slices {
    pub(super) shared: Arc<RingShared>,
}

impl Slices {
    /// Returns the next change. `None` when the ring has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<SliceEvent> {
        std::future::poll_fn(|context| self.shared.poll_event(context.waker())).await
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        self.shared.disconnect();
    }
}

/// Returns when running work of a drain that starts now should be cancelled.
pub(super) fn cancel_time(drain_limit: Duration, cancel_on_move: bool) -> Instant {
    Instant::now() + if cancel_on_move { Duration::ZERO } else { drain_limit / 2 }
}
