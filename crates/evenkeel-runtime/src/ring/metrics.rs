//! Metrics of rings.
//!
//! They are recorded through the `metrics` facade, with the label `ring`.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | [`MEMBERS`] | `state` | members of the newest table: `active` or `leaving` (the assigner) |
//! | [`SLICES`] | `state` | slices of the newest table: `held`, `moving`, `free` or `unknown` |
//! | [`OWNED_SHARE`] | | share of the places that this process works on |
//! | [`TABLE_REVISION`] | | revision of the newest table |
//! | [`VALID_SECONDS`] | | how long this member is valid without another renewal |
//! | [`LAPSES`] | | times that the validity of this member ended without a renewal |
//! | [`MOVES`] | `cause` | slices that got another owner: `release` or `out` (the assigner) |
//! | [`FENCES`] | `cause` | members that were fenced: `expired` or `evicted` (the assigner) |
//! | [`DRAIN_SECONDS`] | | time from the revocation of a range to its release |
//! | [`UNOWNED_SECONDS`] | | time that slices were without an owner (the assigner) |
//! | [`UNOWNED_SLICES`] | | slices without an owner (the assigner) |
//! | [`IMBALANCE`] | | load of the most loaded member relative to its share (the assigner) |

use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use evenkeel_core::shard::{PLACES, ShardRanges};

use super::assigner::AssignerMachine;
use super::member_record::FenceCause;
use super::table::{SliceState, SliceTable};

/// Gauge: members of the newest table, by state.
pub const MEMBERS: &str = "evenkeel_ring_members";
/// Gauge: slices of the newest table, by state.
pub const SLICES: &str = "evenkeel_ring_slices";
/// Gauge: share of the places that this process works on.
pub const OWNED_SHARE: &str = "evenkeel_ring_owned_share";
/// Gauge: revision of the newest table.
pub const TABLE_REVISION: &str = "evenkeel_ring_table_revision";
/// Gauge: how long this member is valid without another renewal.
pub const VALID_SECONDS: &str = "evenkeel_ring_valid_seconds";
/// Counter: times that the validity ended without a renewal.
pub const LAPSES: &str = "evenkeel_ring_lapses_total";
/// Counter: slices that got another owner.
pub const MOVES: &str = "evenkeel_ring_moves_total";
/// Counter: members that were fenced.
pub const FENCES: &str = "evenkeel_ring_fences_total";
/// Histogram: time from the revocation of a range to its release.
pub const DRAIN_SECONDS: &str = "evenkeel_ring_drain_seconds";
/// Histogram: time that slices were without an owner.
pub const UNOWNED_SECONDS: &str = "evenkeel_ring_unowned_seconds";
/// Gauge: slices without an owner.
pub const UNOWNED_SLICES: &str = "evenkeel_ring_unowned_slices";
/// Gauge: load of the most loaded member relative to its share.
pub const IMBALANCE: &str = "evenkeel_ring_imbalance";

/// Registers descriptions with the recorder. The first ring calls this.
pub fn describe() {
    describe_gauge!(MEMBERS, Unit::Count, "Members of the newest table.");
    describe_gauge!(SLICES, Unit::Count, "Slices of the newest table.");
    describe_gauge!(OWNED_SHARE, "Share of the places that this process works on.");
    describe_gauge!(TABLE_REVISION, "Revision of the newest table.");
    describe_gauge!(VALID_SECONDS, Unit::Seconds, "Validity of this member without another renewal.");
    describe_counter!(LAPSES, Unit::Count, "Times that the validity ended without a renewal.");
    describe_counter!(MOVES, Unit::Count, "Slices that got another owner.");
    describe_counter!(FENCES, Unit::Count, "Members that were fenced.");
    describe_histogram!(DRAIN_SECONDS, Unit::Seconds, "Time from the revocation of a range to its release.");
    describe_histogram!(UNOWNED_SECONDS, Unit::Seconds, "Time that slices were without an owner.");
    describe_gauge!(UNOWNED_SLICES, Unit::Count, "Slices without an owner.");
    describe_gauge!(IMBALANCE, "Load of the most loaded member relative to its share.");
}

/// The metrics of one ring. Handles are looked up on each use: that is a few times a second at most, and a recorder may be
/// installed late.
pub(super) struct Metrics {
    ring: SharedString,
    /// The table whose changes were counted last, and since when its slices have no owner.
    counted: Option<Arc<SliceTable>>,
    unowned_since: BTreeMap<u64, Duration>,
    lapses: u64,
}

impl Metrics {
    pub(super) fn new(ring: &str) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        let ring = SharedString::from_owned(ring.to_owned());
        Metrics { ring, counted: None, unowned_since: BTreeMap::new(), lapses: 0 }
    }

    pub(super) fn member(&mut self, owned: &ShardRanges, valid_for: Duration, lapses: u64) {
        gauge!(OWNED_SHARE, "ring" => self.ring.clone()).set(owned.width() as f64 / PLACES as f64);
        gauge!(VALID_SECONDS, "ring" => self.ring.clone()).set(valid_for.as_secs_f64());
        counter!(LAPSES, "ring" => self.ring.clone()).increment(lapses.saturating_sub(self.lapses));
        self.lapses = lapses;
    }

    pub(super) fn table(&self, table: &SliceTable) {
        gauge!(TABLE_REVISION, "ring" => self.ring.clone()).set(table.revision as f64);
        let mut counts = BTreeMap::from([("held", 0), ("moving", 0), ("free", 0), ("unknown", 0)]);
        for (_, state) in table.iter() {
            *counts.entry(state_name(state)).or_insert(0) += 1;
        }
        for (state, count) in counts {
            gauge!(SLICES, "ring" => self.ring.clone(), "state" => state).set(f64::from(count));
        }
    }

    pub(super) fn drained(&self, after: Duration) {
        histogram!(DRAIN_SECONDS, "ring" => self.ring.clone()).record(after.as_secs_f64());
    }

    pub(super) fn fenced(&self, cause: FenceCause) {
        counter!(FENCES, "ring" => self.ring.clone(), "cause" => cause.as_str()).increment(1);
    }

    /// Counts what the assigner's tables tell.
    pub(super) fn assigner(&mut self, now: Duration, assigner: &AssignerMachine) {
        gauge!(IMBALANCE, "ring" => self.ring.clone()).set(assigner.report().imbalance);
        let leaving = assigner.live_members().filter(|(_, lease)| lease.record.leaving).count();
        let active = assigner.live_members().count() - leaving;
        gauge!(MEMBERS, "ring" => self.ring.clone(), "state" => "active").set(active as f64);
        gauge!(MEMBERS, "ring" => self.ring.clone(), "state" => "leaving").set(leaving as f64);
        if let Some(table) = assigner.table()
            && self.counted.as_ref().is_none_or(|counted| counted.revision != table.revision)
        {
            self.count_changes(now, table);
            self.counted = Some(Arc::clone(table));
        }
        gauge!(UNOWNED_SLICES, "ring" => self.ring.clone()).set(self.unowned_since.len() as f64);
    }

    fn count_changes(&mut self, now: Duration, table: &SliceTable) {
        let before = std::mem::take(&mut self.unowned_since);
        for (range, state) in table.iter() {
            let start = range.start();
            let old = self.counted.as_ref().map(|counted| counted.state(counted.index_of(start)));
            let cause = match (old, state) {
                (Some(SliceState::Moving { to, .. }), SliceState::Held { owner, .. }) if to.as_ref() == Some(owner) => {
                    Some("release")
                }
                (Some(SliceState::Free), SliceState::Held { .. }) => Some("out"),
                _ => None,
            };
            if let Some(cause) = cause {
                counter!(MOVES, "ring" => self.ring.clone(), "cause" => cause).increment(1);
            }
            match (before.get(&start), state.owner()) {
                (since, None) => {
                    self.unowned_since.insert(start, since.copied().unwrap_or(now));
                }
                (Some(since), Some(_)) => {
                    let unowned = now.saturating_sub(*since);
                    histogram!(UNOWNED_SECONDS, "ring" => self.ring.clone()).record(unowned.as_secs_f64());
                }
                (None, Some(_)) => {}
            }
        }
    }
}

fn state_name(state: &SliceState) -> &'static str {
    match state {
        SliceState::Unknown => "unknown",
        SliceState::Free => "free",
        SliceState::Held { .. } => "held",
        SliceState::Moving { .. } => "moving",
    }
}
