//! Metrics of leader election, under client-go's names.
//!
//! They are recorded through the `metrics` facade.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | [`MASTER_STATUS`] | `name` | 1 while this process leads, else 0 |
//! | [`SLOWPATH`] | `name` | renewals that had to read the lease first |

use std::sync::Once;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, gauge};

/// Gauge: 1 while this process leads.
pub const MASTER_STATUS: &str = "leader_election_master_status";
/// Counter: renewals that had to read the lease first.
pub const SLOWPATH: &str = "leader_election_slowpath_total";

/// Registers descriptions with the recorder. The first elector calls this.
pub fn describe() {
    describe_gauge!(MASTER_STATUS, Unit::Count, "Whether this process leads: 1, or 0.");
    describe_counter!(SLOWPATH, Unit::Count, "Renewals that had to look at the lease first.");
}

/// The metrics of one elector. Handles are looked up on each use: that is every few seconds, and a recorder may be
/// installed late.
#[derive(Clone)]
pub(super) struct Metrics {
    name: SharedString,
}

impl Metrics {
    /// Sets the gauge to 0.
    pub(super) fn new(name: &str) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        let metrics = Metrics { name: SharedString::from_owned(name.to_owned()) };
        metrics.leads(false);
        metrics
    }

    pub(super) fn leads(&self, leads: bool) {
        gauge!(MASTER_STATUS, "name" => self.name.clone()).set(f64::from(u8::from(leads)));
    }

    pub(super) fn slow_path(&self, times: u64) {
        counter!(SLOWPATH, "name" => self.name.clone()).increment(times);
    }
}
