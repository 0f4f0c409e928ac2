//! [`RingHandle`]: reads the ring, and runs work that it owns.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use evenkeel_core::shard::{ShardRange, ShardRanges};
use tokio::sync::watch;
use tokio::time::sleep;

use super::member_record::SliceLoad;
use super::ring_table::{RingMember, RingSlice, RingTable};
use super::shared::RingShared;

/// A handle to a ring. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RingHandle {
    pub(super) shared: Arc<RingShared>,
}

/// Identifies the owner of a place to an external store. See [`RingHandle::fence`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingFence {
    /// The name of the ring.
    pub ring: Arc<str>,
    /// The range that the epoch is about.
    pub slice: ShardRange,
    /// The epoch. It rises whenever a place gets another owner.
    pub epoch: u64,
}

impl RingHandle {
    /// Returns the name of the ring.
    pub fn name(&self) -> &str {
        &self.shared.ring
    }

    /// Returns a function that returns this handle while another one, or the ring, exists.
    pub(crate) fn weak(&self) -> impl Fn() -> Option<RingHandle> + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| RingHandle { shared })
    }

    /// Returns the name of this member. `None` before it joins. It changes if the membership is lost and regained.
    pub fn member(&self) -> Option<String> {
        self.shared.view.borrow().member.as_deref().map(str::to_owned)
    }

    /// Returns the newest table. `None` before the first one.
    pub fn table(&self) -> Option<RingTable> {
        let table = self.shared.view.borrow().table.clone()?;
        Some(RingTable::of(&table))
    }

    /// Returns the members of the newest table, the oldest first.
    pub fn members(&self) -> Vec<RingMember> {
        self.table().map(|table| table.members).unwrap_or_default()
    }

    /// Returns the slice that contains a place. `None` before the first table.
    pub fn slice_of(&self, place: u64) -> Option<RingSlice> {
        self.table()?.slice_of(place).cloned()
    }

    /// Returns whether work on a place may start here and now: this member holds it, and its Lease is valid.
    pub fn is_owned(&self, place: u64) -> bool {
        self.shared.is_valid() && self.shared.view.borrow().work_at(place).is_some_and(|work| !work.is_draining)
    }

    /// Returns the fence of a place that this member holds. `None`: it holds it not, or not any more.
    ///
    /// A process can be suspended for any time between a check and its consequence. A store that remembers the highest epoch per
    /// place, and rejects lower ones, is safe from former owners.
    pub fn fence(&self, place: u64) -> Option<RingFence> {
        let view = self.shared.view.borrow();
        let work = view.work_at(place).filter(|work| !work.is_closed)?;
        Some(RingFence { ring: Arc::clone(&self.shared.ring), slice: work.range, epoch: work.epoch })
    }

    /// Runs work on a place. The future is polled only while this member holds the place and its Lease is valid, or has been within
    /// the grace; the check precedes every poll. `None`: the work did not start, or was dropped.
    ///
    /// A range is not released while work of it runs.
    pub async fn guard<F: Future>(&self, place: u64, work: F) -> Option<F::Output> {
        let (grant, running) = {
            let view = self.shared.view.borrow();
            let found = view.work_at(place).filter(|work| !work.is_draining)?;
            let running = RunningWork { shared: Arc::clone(&self.shared), number: self.shared.started(place) };
            (found.grant, running)
        };
        if !self.shared.is_valid() {
            return None;
        }
        let mut changes = self.shared.view.subscribe();
        let output = {
            let mut work = pin!(work);
            loop {
                changes.borrow_and_update();
                let Some(remaining) = self.shared.remaining(place, grant) else { break None };
                let in_time = poll_fn(|context| match self.shared.remaining(place, grant) {
                    Some(_) => work.as_mut().poll(context).map(Some),
                    None => Poll::Ready(None),
                });
                tokio::select! {
                    biased;
                    output = in_time => break output,
                    () = sleep(remaining) => {}
                    // The sender lives as long as the handle.
                    _ = changes.changed() => {}
                }
            }
        };
        // The work is dropped before the range counts as free of it.
        drop(running);
        output
    }

    /// Returns the places whose objects this process should have in its caches: what it holds, and what moves to it.
    ///
    /// With [`Ring::covered_by_caller`](super::Ring::covered_by_caller), the caller widens its caches to them and reports with
    /// [`cover`](Self::cover). Places leave the set when they are released or lost.
    pub fn wanted(&self) -> watch::Receiver<ShardRanges> {
        self.shared.wanted.subscribe()
    }

    /// Sets the places that all caches of this process cover. A range is granted to this process, and moves to it, once it is
    /// covered. Replaces the earlier report.
    pub fn cover(&self, covered: ShardRanges) {
        self.shared.report(|reports| reports.covered = Some(covered));
    }

    /// Sets the load of the slices of this member. The next heartbeat publishes it.
    pub fn report_load(&self, load: Vec<SliceLoad>) {
        self.shared.report(|reports| reports.load = Some(load));
    }
}

/// Counts as running work until it is dropped.
struct RunningWork {
    shared: Arc<RingShared>,
    number: u64,
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.shared.ended(self.number);
    }
}
