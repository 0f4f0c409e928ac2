//! The protocol of a ring under injected faults, in a simulation.
//!
//! Two to six members and one or two assigners share a network that loses, delays and delivers late what was abandoned long ago.
//! Clocks have any offset and differ in rate as much as is documented to be safe. Processes crash, restart, stop, leave and
//! resume; Leases and the table are deleted; watches lag and restart from an old state. Everything is drawn from a seed. A member
//! acts until the last moment it may: to the end of the grace.
//!
//! Checked: no place has two acting members, epochs never fall, every table is a partition, no table falls behind, members act on
//! what their newest table gives them, and once the network is healthy every place is acted on within the documented bound. The
//! same faults find each of the planted bugs.
//!
//! `EVENKEEL_RING_SCHEDULES` is the number of schedules, `EVENKEEL_RING_FIRST` the first seed. A failing seed prints a trace.

mod process;
mod setup;
mod store;
mod world;

use self::setup::{Ignored, Kind, Setup};
use self::world::{World, run};
use crate::ring::planted::{RingDefect, plant};

/// Microseconds of simulated time.
type Micros = u64;

const SECOND: Micros = 1_000_000;

/// How many schedules run by default.
const SCHEDULES: u64 = 2_000;

/// What a schedule found and did.
#[derive(Clone, Debug, Default)]
struct Verdict {
    overlaps: u64,
    epochs_fell: u64,
    early_releases: u64,
    unowned: u64,
    unsettled: u64,
    failure: Option<String>,
    grants: u64,
    moves: u64,
    abandoned: u64,
    fences: u64,
    table_deletions: u64,
    member_deletions: u64,
    late_writes: u64,
    resumed: u64,
    crashes: u64,
    ends: u64,
    table_writes: u64,
}

impl Verdict {
    fn add(&mut self, other: &Verdict) {
        self.overlaps += other.overlaps;
        self.epochs_fell += other.epochs_fell;
        self.early_releases += other.early_releases;
        self.unowned += other.unowned;
        self.unsettled += other.unsettled;
        self.grants += other.grants;
        self.moves += other.moves;
        self.abandoned += other.abandoned;
        self.fences += other.fences;
        self.table_deletions += other.table_deletions;
        self.member_deletions += other.member_deletions;
        self.late_writes += other.late_writes;
        self.resumed += other.resumed;
        self.crashes += other.crashes;
        self.ends += other.ends;
        self.table_writes += other.table_writes;
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs seeds on all cores, with a planted bug or none. Returns the sum, and the seeds that failed with why.
fn all(
    seeds: std::ops::Range<u64>,
    defect: Option<RingDefect>,
    make: impl Fn(u64) -> Setup + Sync,
) -> (Verdict, Vec<(u64, String)>) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(8) as u64;
    let make = &make;
    let parts: Vec<(Verdict, Vec<(u64, String)>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    plant(defect);
                    let (mut sum, mut failed) = (Verdict::default(), Vec::new());
                    for seed in seeds.skip(first as usize).step_by(threads as usize) {
                        let (verdict, _) = run(make(seed), false);
                        sum.add(&verdict);
                        failed.extend(verdict.failure.map(|failure| (seed, failure)));
                    }
                    plant(None);
                    (sum, failed)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let (mut sum, mut failed) = (Verdict::default(), Vec::new());
    for (verdict, seeds) in parts {
        sum.add(&verdict);
        failed.extend(seeds);
    }
    failed.sort();
    (sum, failed)
}

/// The end of the trace of a schedule.
fn trace(setup: Setup) -> String {
    let (_, lines) = run(setup, true);
    let from = lines.len().saturating_sub(from_environment("EVENKEEL_RING_TRACE", 60) as usize);
    lines[from..].join("\n")
}

#[test]
fn shm_005_clean_machines_keep_all_invariants() {
    let first = from_environment("EVENKEEL_RING_FIRST", 0);
    let last = first + from_environment("EVENKEEL_RING_SCHEDULES", SCHEDULES);
    let make = |seed: u64| Setup::new(seed, Kind::Stormy);
    let (sum, failed) = all(first..last, None, make);
    println!("{sum:?}");
    if let Some((seed, failure)) = failed.first() {
        let trace = trace(make(*seed));
        panic!("{} schedules failed, the first is {seed}: {failure}\n{trace}", failed.len());
    }
    let schedules = last - first;
    // SHM-010, for 2,000 seeds.
    for (what, count, least) in [
        ("moves", sum.moves, 20_000),
        ("fences", sum.fences, 5_000),
        ("table deletions", sum.table_deletions, 200),
        ("member deletions", sum.member_deletions, 200),
        ("late writes", sum.late_writes, 300),
        ("resumed lapses", sum.resumed, 500),
        ("abandoned moves", sum.abandoned, 100),
    ] {
        assert!(count * 2_000 >= least * schedules, "SHM-010: only {count} {what} in {schedules} schedules");
    }
    assert_eq!(sum.early_releases, 0, "I5");
}
