//! Defects of leader election.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

#[test]
fn bug_26_inv_9_a_renew_time_is_trusted() {
    finds(Defect::RenewTimeTrusted, &scenarios::leader(), &["one leader"]);
}

#[test]
fn bug_27_inv_9_a_lease_is_valid_from_the_response() {
    finds(Defect::ValidFromResponse, &scenarios::leader(), &["one leader"]);
}

#[test]
fn bug_28_inv_9_a_leader_works_after_its_loss() {
    finds(Defect::LeadsAfterLoss, &scenarios::leader(), &["one leader"]);
}

#[test]
fn bug_29_inv_9_a_release_takes_the_lease_of_a_rival() {
    finds(Defect::ReleasesRivalLease, &scenarios::leader(), &["one leader"]);
}
