//! The election under injected faults, in a simulation.
//!
//! Two to five candidates and a server share a network that loses, delays and delivers late what was abandoned long
//! ago. Clocks have any offset and differ in rate as much as is documented to be safe. Processes crash, restart, stop
//! and resume; some share an identity by mistake. Everything is drawn from a seed. A leader acts until the last moment
//! it may: to the end of the grace.
//!
//! Checked: two never lead at once; each term has a higher number than all before; and once the network is healthy, a
//! leader exists within the documented bound. The same faults are run against candidates that follow the rules of
//! other implementations, to show that the check detects overlaps.

mod peers;
mod world;

use std::time::Duration;

use self::peers::{Peer, Rules};
use self::world::{Candidate, Setup, Verdict, run};
use crate::election::config::Timing;
use crate::election::machine::ElectionMachine;

/// How many schedules run by default; `EVENKEEL_ELECTION_SCHEDULES` overrides it.
const SCHEDULES: u64 = 100_000;

/// How many schedules run with each of the peers' rules.
const PEER_SCHEDULES: u64 = 5_000;

fn schedules() -> u64 {
    std::env::var("EVENKEEL_ELECTION_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES)
}

fn seconds(lease: u64, renew: u64, retry: u64) -> Timing {
    Timing {
        lease_duration: Duration::from_secs(lease),
        renew_deadline: Duration::from_secs(renew),
        retry_period: Duration::from_secs(retry),
        ..Timing::default()
    }
}

/// Runs seeds on all cores and returns what `check` makes of each.
fn all<T: Send>(seeds: std::ops::Range<u64>, check: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(8) as u64;
    let check = &check;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let mine = seeds.skip(first as usize).step_by(threads as usize);
                    mine.filter_map(check).collect::<Vec<T>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn core(setup: &Setup, identity: String) -> Box<dyn Candidate> {
    Box::new(ElectionMachine::new(setup.timing, identity, false, setup.release))
}

fn ours(seed: u64) -> Verdict {
    let timing = match seed % 4 {
        0 => seconds(15, 14, 2),
        1 => seconds(6, 4, 2),
        // Requests may take as long as a leader leads.
        2 => Timing { call_timeout: Some(Duration::from_secs(10)), ..seconds(15, 10, 2) },
        _ => seconds(15, 10, 2),
    };
    run(Setup::stormy(seed, timing), core)
}

#[test]
fn inv_9_leaders_do_not_overlap_terms_increase_and_a_leader_is_elected_again() {
    let wrong = all(0..schedules(), |seed| {
        let verdict = ours(seed);
        let fine = verdict.overlaps == 0 && verdict.numbers_fell == 0 && verdict.leads_again;
        (!fine).then_some((seed, verdict))
    });
    assert!(wrong.is_empty(), "{} schedules went wrong, the first is {:?}", wrong.len(), wrong.first());
}

#[test]
fn inv_9_the_schedules_cover_crashes_losses_and_late_writes() {
    let mut sum = Verdict::default();
    for verdict in all(0..2_000, |seed| Some(ours(seed))) {
        sum.terms += verdict.terms;
        sum.crashes += verdict.crashes;
        sum.late_writes += verdict.late_writes;
        sum.lost += verdict.lost;
        sum.left += verdict.left;
    }
    assert!(sum.terms > 4_000, "{sum:?}");
    assert!(sum.crashes > 1_000, "{sum:?}");
    assert!(sum.late_writes > 300, "writes took effect that had been given up: {sum:?}");
    assert!(sum.lost > 1_000 && sum.left > 300, "{sum:?}");
}

#[test]
fn le_004_after_a_crash_a_leader_is_elected_within_lease_duration_and_retries() {
    let wrong = all(0..2_000, |seed| {
        let verdict = run(Setup::fair(seed, seconds(15, 10, 2)), core);
        (!verdict.leads_again || verdict.overlaps > 0).then_some((seed, verdict))
    });
    assert!(wrong.is_empty(), "{} schedules went wrong, the first is {:?}", wrong.len(), wrong.first());
}

/// Counts the schedules in which two of these candidates lead at once.
fn overlaps(rules: Rules) -> usize {
    let found = all(0..PEER_SCHEDULES, |seed| {
        let patient = Timing { call_timeout: Some(Duration::from_secs(10)), ..seconds(15, 10, 2) };
        let setup = Setup::stormy(seed, patient).for_peers();
        let peer = |setup: &Setup, identity| Box::new(Peer::new(setup.timing, identity, rules)) as Box<dyn Candidate>;
        (run(setup, peer).overlaps > 0).then_some(())
    });
    found.len()
}

#[test]
fn bug_26_schedules_find_two_leaders_if_recorded_times_are_compared_with_a_clock() {
    let found = overlaps(Rules { trusts_written_times: true, counts_from_answers: false });
    assert!(found > 50, "only {found} of {PEER_SCHEDULES}");
}

#[test]
fn bug_27_schedules_find_two_leaders_if_validity_starts_at_the_response() {
    let found = overlaps(Rules { trusts_written_times: false, counts_from_answers: true });
    assert!(found > 50, "only {found} of {PEER_SCHEDULES}");
}

#[test]
fn bug_26_and_27_without_the_faulty_rules_the_copies_have_no_overlap() {
    assert_eq!(overlaps(Rules { trusts_written_times: false, counts_from_answers: false }), 0);
}
