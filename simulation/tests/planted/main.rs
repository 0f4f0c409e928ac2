//! The exam: each planted defect is found by the invariant that it breaks (BUG-1 to BUG-38).
//!
//! ```text
//! RUSTFLAGS="--cfg planted" cargo test --profile simulation -p evenkeel-simulation --test planted --target-dir target/planted
//! ```
#![cfg(planted)]
#![allow(clippy::print_stdout, reason = "shows in which run a defect was found")]

mod client;
mod controllers;
mod election;
mod informer;
mod queue;
mod reflector;
mod server;

use evenkeel_base::planted::{Defect, plant};
use evenkeel_sim::Scenario;

/// A defect must be found within this many runs.
const RUNS: u64 = 20_000;

/// Plants a defect, runs a scenario until it fails, and checks which invariant did.
#[track_caller]
fn finds(defect: Defect, scenario: &Scenario, invariants: &[&str]) {
    let _planted = plant(defect);
    match scenario.check(RUNS) {
        Ok(report) => panic!("BUG-{} ({defect:?}) was not found: {report}", defect.number()),
        Err(failed) => {
            println!("BUG-{} {defect:?}: run {}: {}", defect.number(), failed.runs(), failed.failure());
            let found = failed.failure().invariant.as_str();
            assert!(invariants.contains(&found), "BUG-{} was found by {found:?}:\n{failed}", defect.number());
        }
    }
}
