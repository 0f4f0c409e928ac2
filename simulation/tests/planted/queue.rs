//! Defects of the work queue.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

const NO_KEY_LOST: &str = "no key lost in queue";

#[test]
fn bug_18_inv_7_a_key_that_is_added_in_flight_is_lost() {
    finds(Defect::AddInFlightLost, &scenarios::queue(), &[NO_KEY_LOST]);
}

#[test]
fn bug_19_inv_8_a_key_that_is_added_in_flight_is_handed_out_at_once() {
    finds(Defect::AddInFlightAtOnce, &scenarios::queue(), &["at most one worker per key"]);
}

#[test]
fn bug_20_inv_7_the_later_of_two_delays_counts() {
    finds(Defect::LaterDelayKept, &scenarios::queue(), &[NO_KEY_LOST]);
}

#[test]
fn bug_21_inv_7_delays_follow_the_time_of_day() {
    finds(Defect::DelayByTimeOfDay, &scenarios::queue(), &[NO_KEY_LOST]);
}

#[test]
fn bug_22_inv_16_a_drain_returns_before_the_last_item_is_done() {
    finds(Defect::DrainTooEarly, &scenarios::queue(), &["stop means stop"]);
}
