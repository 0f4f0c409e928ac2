//! A controller whose replicas divide the objects: moves under random faults, crashes at writes, restarts onto old replicas.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;

use evenkeel_sim::Run;
use evenkeel_simulation::scenarios;

/// Returns how often a key was reconciled by another process than before.
fn moves(run: &Run) -> usize {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut moves = 0;
    for line in run.trace.lines() {
        let Some(key) = line.what.strip_prefix("reconciles ").and_then(|rest| rest.split(' ').next()) else { continue };
        let before = owners.insert(key, &line.process);
        moves += usize::from(before.is_some_and(|before| before != line.process));
    }
    moves
}

#[test]
fn shm_020_replicas_divide_the_objects_under_faults() {
    scenarios::sharded().check(10).unwrap();
}

#[test]
fn shm_020_replicas_divide_the_objects_under_faults_of_watches() {
    scenarios::sharded_caches().check(4).unwrap();
}

#[test]
fn shm_020_keys_move_in_the_runs() {
    let moved = |seed: u64| moves(&scenarios::sharded().replay(&format!("seed={seed:#x}")).unwrap());
    let total: usize = (0..2).map(moved).sum();
    assert!(total >= 10, "keys have moved {total} times");
}
