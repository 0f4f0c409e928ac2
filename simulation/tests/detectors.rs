//! The detectors of an incorrect server: each illegal fault is reported (INV-18).
#![allow(clippy::print_stdout, reason = "shows in which run a fault was reported")]

use evenkeel_sim::{Fault, Scenario};
use evenkeel_simulation::scenarios;

/// An illegal fault must be reported within this many runs.
const RUNS: u64 = 1_000;

#[track_caller]
fn reports(fault: Fault, scenario: Scenario, invariant: &str) {
    match scenario.faults([fault]).check(RUNS) {
        Ok(report) => panic!("{} ({fault:?}) was not reported: {report}", fault.number()),
        Err(failed) => {
            println!("{} {fault:?}: run {}: {}", fault.number(), failed.runs(), failed.failure());
            assert_eq!(failed.failure().invariant, invariant, "{} was reported otherwise:\n{failed}", fault.number());
        }
    }
}

#[test]
fn inv_18_illegal_faults_are_no_part_of_the_legal_ones() {
    assert!(Fault::ILLEGAL.iter().all(|fault| !Fault::ALL.contains(fault)));
}

#[test]
fn inv_18_f_36_a_skipped_event_breaks_the_watch_guarantees() {
    reports(Fault::EventSkipped, scenarios::api(), "watch guarantees");
}

#[test]
fn inv_18_f_36_a_skipped_event_is_reported_by_the_detector() {
    reports(Fault::EventSkipped, scenarios::detector(), "consistency detector");
}

#[test]
fn inv_18_f_37_reordered_events_break_the_watch_guarantees() {
    reports(Fault::EventsReordered, scenarios::api(), "watch guarantees");
}

#[test]
fn inv_18_f_37_reordered_events_are_reported_by_the_detector() {
    reports(Fault::EventsReordered, scenarios::detector(), "consistency detector");
}

#[test]
fn inv_18_f_38_an_early_end_of_the_initial_objects_breaks_the_watch_guarantees() {
    reports(Fault::EarlyInitialEnd, scenarios::api(), "watch guarantees");
}

#[test]
fn inv_18_f_39_a_list_that_misses_an_object_breaks_the_watch_guarantees() {
    reports(Fault::ItemOmitted, scenarios::api(), "watch guarantees");
}

#[test]
fn inv_18_f_39_a_list_that_misses_an_object_is_reported_by_the_detector() {
    reports(Fault::ItemOmitted, scenarios::detector(), "consistency detector");
}
