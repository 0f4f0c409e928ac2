//! [`MemberObservation`]: what an assigner knows about the Lease of a member, and since when.

use std::time::Duration;

use crate::ring::member_record::{FenceCause, MemberLease};
use crate::ring::planted::{RingDefect, is_planted};

#[derive(Clone, Debug)]
pub(super) enum ObservedLease {
    /// A table names the member, and its Lease was not read.
    Unread,
    Present(MemberLease),
    /// The Lease was deleted, as a consistent read or a watch has told.
    Absent,
}

#[derive(Clone, Debug)]
pub(super) struct MemberObservation {
    /// The highest version that was observed.
    pub(super) version: u64,
    pub(super) lease: ObservedLease,
    /// When the member's last own write was first observed; once it is fenced or deleted, when that was first observed.
    pub(super) counted_from: Duration,
    /// The Lease has to be read from this time.
    pub(super) read_at: Option<Duration>,
    pub(super) nudged_at: Option<Duration>,
}

impl MemberObservation {
    pub(super) fn unread(now: Duration) -> Self {
        MemberObservation {
            version: 0,
            lease: ObservedLease::Unread,
            counted_from: now,
            read_at: Some(now),
            nudged_at: None,
        }
    }

    /// Takes a version of the Lease. Writes of assigners do not restart the count: the time that the member wrote is the same.
    pub(super) fn observe(&mut self, now: Duration, version: u64, lease: MemberLease) {
        if version <= self.version {
            return;
        }
        self.version = version;
        let continues = match &self.lease {
            ObservedLease::Present(known) => known.renewed == lease.renewed && known.fenced == lease.fenced,
            ObservedLease::Unread | ObservedLease::Absent => false,
        };
        if !continues {
            self.counted_from = now;
        }
        self.lease = ObservedLease::Present(lease);
    }

    /// Notes that the Lease is gone.
    pub(super) fn deleted(&mut self, now: Duration) {
        if !matches!(self.lease, ObservedLease::Absent) {
            self.lease = ObservedLease::Absent;
            self.counted_from = now;
        }
    }

    pub(super) fn lease(&self) -> Option<&MemberLease> {
        match &self.lease {
            ObservedLease::Present(lease) => Some(lease),
            ObservedLease::Unread | ObservedLease::Absent => None,
        }
    }

    /// Returns the Lease of a member that is not fenced.
    pub(super) fn live(&self) -> Option<&MemberLease> {
        self.lease().filter(|lease| lease.fenced.is_none())
    }

    fn counted(&self, now: Duration, lease_duration: Duration) -> bool {
        now >= self.counted_from + lease_duration
    }

    /// Returns whether the member did not write for the lease duration, as observed.
    pub(super) fn has_expired(&self, now: Duration, wall: i64, lease_duration: Duration) -> bool {
        let Some(lease) = self.live() else { return false };
        if is_planted(RingDefect::StoredTimes) {
            return wall - lease.renewed >= i64::try_from(lease_duration.as_micros()).unwrap_or(i64::MAX);
        }
        self.counted(now, lease_duration)
    }

    /// Returns whether the member cannot work any more, and never will.
    pub(super) fn is_out(&self, now: Duration, lease_duration: Duration) -> bool {
        match &self.lease {
            ObservedLease::Unread => false,
            ObservedLease::Absent => is_planted(RingDefect::DeletedNow) || self.counted(now, lease_duration),
            ObservedLease::Present(lease) => match lease.fenced {
                Some(FenceCause::Expired) => true,
                Some(FenceCause::Evicted) => is_planted(RingDefect::EvictNow) || self.counted(now, lease_duration),
                None => is_planted(RingDefect::NoFence) && self.counted(now, lease_duration),
            },
        }
    }
}
