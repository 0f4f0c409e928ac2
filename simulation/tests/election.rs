//! The leader election: crashes at every write of a Lease, restarts onto old replicas.

use std::time::Duration;

use evenkeel_sim::Scenario;
use evenkeel_simulation::scenarios;

/// Replicas that elect a leader for as long as two takeovers take: every renewal is a point of a matrix.
fn leader() -> Scenario {
    scenarios::leader().settle_within(Duration::from_secs(35)).stable_for(Duration::from_secs(5))
}

#[test]
fn inv_9_a_crash_at_any_write_leaves_one_leader() {
    let report = leader().crash_matrix().unwrap();
    assert!(report.runs >= 50, "{report}");
}

#[test]
fn inv_9_a_restart_onto_an_old_replica_leaves_one_leader() {
    let report = leader().stale_matrix().unwrap();
    assert!(report.runs >= 100, "{report}");
}
