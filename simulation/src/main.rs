//! Simulates the parts of evenkeel under every legal fault, and reports what was tried.
//!
//! ```text
//! cargo run --profile simulation -p evenkeel-simulation                             # 2,000 schedules
//! cargo run --profile simulation -p evenkeel-simulation -- --schedules 1000000      # a night
//! cargo run --profile simulation -p evenkeel-simulation -- --replay LINE            # a line that it has printed
//! ```
//!
//! The exit code is 1 if an invariant was broken; the replay line is printed.

#![allow(clippy::print_stdout, reason = "a report is printed")]

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, fs, thread};

use clap::Parser;
use evenkeel_sim::{ReplayError, Report, Scenario};
use evenkeel_simulation::scenarios::{self, SHARES, Shared};

/// Seeds that a thread takes at a time.
const BATCH: u64 = 25;
/// One schedule in this many is repeated, and must have the same trace hash.
const REPEATED: u64 = 100;

/// Simulates the parts of evenkeel under every legal fault, and reports what was tried.
#[derive(Debug, Parser)]
struct Options {
    /// Schedules, shared out over the scenarios: those that are cheap get more.
    #[arg(long, default_value_t = 2_000)]
    schedules: u64,
    /// First seed of every scenario.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Give all schedules to the scenario of this name.
    scenario: Option<String>,
    /// Repeat the run of this replay line only, and print its timeline.
    #[arg(long, value_name = "LINE", conflicts_with_all = ["schedules", "first", "scenario"])]
    replay: Option<String>,
    /// Write the repeated run to this file, as a page to look at it step by step.
    #[arg(long, value_name = "FILE", requires = "replay")]
    page: Option<PathBuf>,
}

/// What a number of seeds has shown.
#[derive(Debug, Default)]
struct Outcome {
    report: Report,
    repeated: u64,
    failures: Vec<String>,
    /// The processor time of all threads.
    took: Duration,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.report.merge(&other.report);
        self.repeated += other.repeated;
        self.failures.extend(other.failures);
        self.took += other.took;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { report, repeated, failures, took } = self;
        let simulated = report.simulated.as_secs_f64();
        let took = took.as_secs_f64();
        writeln!(f, "{report}")?;
        write!(
            f,
            "  {:.2} simulated years, {:.0} times its processor time, {:.2} ms per schedule; {repeated} repeated, {} failures",
            simulated / (365.25 * 86_400.0),
            simulated / took.max(f64::MIN_POSITIVE),
            took * 1000.0 / report.runs.max(1) as f64,
            failures.len()
        )?;
        failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

/// Runs seeds of a scenario on some threads, which take a batch at a time.
fn run(scenario: &Scenario, seeds: Range<u64>, threads: u64) -> Outcome {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        let started = processor_time();
        let mut outcome = Outcome::default();
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= seeds.end {
                break;
            }
            let batch = first..seeds.end.min(first + BATCH);
            outcome.merge(run_batch(scenario, batch));
        }
        outcome.took = processor_time().saturating_sub(started);
        outcome
    };
    let mut total = Outcome::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            match worker.join() {
                Ok(outcome) => total.merge(outcome),
                Err(_) => total.failures.push(format!("{}: the simulation itself has panicked", scenario.name())),
            }
        }
    });
    total
}

/// Runs seeds one after the other. A failure does not keep later seeds from running.
fn run_batch(scenario: &Scenario, seeds: Range<u64>) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in seeds {
        match scenario.check_from(seed, 1) {
            Ok(report) => outcome.report.merge(&report),
            Err(failed) => outcome.failures.push(format!("{}\n  {}", failed.replay_line(), failed.failure())),
        }
        if seed.is_multiple_of(REPEATED) {
            outcome.repeated += 1;
            outcome.failures.extend(difference(scenario, seed));
        }
    }
    outcome
}

/// Runs a seed twice. Returns where the two runs differ.
fn difference(scenario: &Scenario, seed: u64) -> Option<String> {
    let run = || scenario.replay(&format!("seed={seed:#x}")).ok().map(|run| run.trace);
    let (Some(first), Some(second)) = (run(), run()) else {
        return Some(format!("seed {seed:#x} of {} cannot be replayed", scenario.name()));
    };
    if first.hash() == second.hash() {
        return None;
    }
    let lines = first.lines().iter().zip(second.lines()).find(|(first, second)| first != second);
    let lines = lines.map(|(first, second)| format!("{first}\n  {second}")).unwrap_or_default();
    Some(format!("seed {seed:#x} of {} is not repeated exactly:\n  {lines}", scenario.name()))
}

/// Returns the processor time of this thread, which other programs of the machine do not change.
#[cfg(unix)]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the time since the first call: other systems have no processor time of a thread in a common interface.
#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "the program measures how long it takes")]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Repeats the run of a replay line. Returns whether it keeps all invariants.
fn replay(line: &str, page: Option<&Path>) -> Result<bool, Box<dyn Error>> {
    let (name, _) =
        line.split_once(':').ok_or_else(|| format!("{line:?} does not begin with a scenario and a colon"))?;
    let scenarios = scenarios::all();
    let known = scenarios.iter().find(|shared| shared.scenario.name() == name);
    let scenario = &known.ok_or_else(|| unknown_scenario(name, &scenarios))?.scenario;
    let (run, divergence) = match scenario.replay(line) {
        Ok(run) => (run, None),
        Err(error) => {
            let message = error.to_string();
            let ReplayError::Diverged { run, .. } = error else { return Err(error.into()) };
            (*run, Some(message))
        }
    };
    print!("{}", run.trace);
    if let Some(failure) = &run.failure {
        println!("\n{failure}");
    }
    if let Some(page) = page {
        fs::write(page, run.to_html()).map_err(|error| format!("{} cannot be written: {error}", page.display()))?;
    }
    match divergence {
        Some(message) => Err(message.into()),
        None => Ok(run.failure.is_none()),
    }
}

fn unknown_scenario(name: &str, scenarios: &[Shared]) -> String {
    let names: Vec<&str> = scenarios.iter().map(|shared| shared.scenario.name()).collect();
    format!("there is no scenario {name:?}; there are {}", names.join(", "))
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(line) = &options.replay {
        return match replay(line, options.page.as_deref()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let scenarios = scenarios::all();
    let mut total = Outcome::default();
    let mut is_known = false;
    for Shared { scenario, share } in &scenarios {
        let schedules = match &options.scenario {
            Some(only) if only == scenario.name() => options.schedules,
            Some(_) => continue,
            None => (options.schedules * share).div_ceil(SHARES),
        };
        is_known = true;
        let outcome = run(scenario, options.first..options.first + schedules, options.threads);
        println!("{}: {outcome}", scenario.name());
        total.merge(outcome);
    }
    if !is_known {
        eprintln!("{}", unknown_scenario(&options.scenario.unwrap_or_default(), &scenarios));
        return ExitCode::FAILURE;
    }
    println!("all: {total}");
    println!("faults by what the clients were doing; a dot cannot be:\n{}", total.report.coverage);
    if total.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::Fault;

    use super::*;

    #[test]
    fn sim_11_a_printed_line_is_repeated() {
        assert!(replay("queue:seed=0x2a", None).unwrap());
        let error = |line| replay(line, None).unwrap_err().to_string();
        assert!(error("seed=0x2a").contains("a scenario and a colon"));
        assert!(error("tail:seed=0x2a").contains("there is no scenario \"tail\"; there are informer"));
        assert!(error("queue:seeds=1").contains("is not a replay line"));
        assert!(error("queue:tape=t0=1@v1.1.0000000000000000").contains("diverged"));
    }

    #[test]
    fn wrk_9_wrk_10_inv_1_inv_2_inv_3_inv_4_an_informer_under_faults() {
        let report = scenarios::informer().check(120).unwrap();
        // It has watches and WatchLists only: no writes, no pages, no code that panics.
        let missing: Vec<_> = Fault::ALL.iter().filter(|fault| !report.faults.contains_key(fault)).collect();
        let impossible = [Fault::PageExpires, Fault::ResponseLost, Fault::WriteLost, Fault::Rival, Fault::Panics];
        // Only relists, and only WatchLists, have these; they have tests of their own. Lists are rare.
        let rare = [Fault::VersionTooLarge, Fault::InitialEndMissing, Fault::Slow];
        assert!(impossible.iter().all(|fault| missing.contains(&fault)), "{report}");
        assert!(missing.iter().all(|fault| impossible.contains(fault) || rare.contains(fault)), "{report}");
    }

    #[test]
    fn wrk_8_inv_1_inv_2_inv_3_inv_4_inv_6_inv_11_inv_15_informers_that_list_in_every_way() {
        for scenario in [
            scenarios::watch_list(),
            scenarios::json_watch(),
            scenarios::cached_list(),
            scenarios::paged_list(),
            scenarios::longer_versions(),
        ] {
            scenario.check(40).unwrap();
        }
    }

    #[test]
    fn wrk_6_inv_9_there_is_one_leader_at_a_time() {
        scenarios::leader().check(25).unwrap();
    }

    #[test]
    fn wrk_7_inv_7_inv_8_inv_16_inv_17_a_queue_loses_no_key() {
        let report = scenarios::queue().check(2_000).unwrap();
        assert!(
            report.faults.contains_key(&Fault::ClockJumps) && report.faults.contains_key(&Fault::Panics),
            "{report}"
        );
        assert_eq!(report.requests, 0);
    }

    #[test]
    fn wrk_8_inv_5_inv_6_inv_10_inv_11_inv_16_inv_17_handlers_of_several_informers() {
        let report = scenarios::handlers().check(40).unwrap();
        assert!(report.faults.contains_key(&Fault::Panics), "{report}");
    }

    #[test]
    fn inv_9_there_is_one_leader_after_its_lease_was_deleted() {
        scenarios::lease_deleted().check(25).unwrap();
    }

    #[test]
    fn wrk_1_inv_14_inv_15_writes_have_their_effect_once() {
        scenarios::counter().check(40).unwrap();
        scenarios::creator().check(40).unwrap();
    }

    #[test]
    fn inv_20_no_secret_leaves() {
        scenarios::credentials().check(40).unwrap();
    }

    #[test]
    fn wrk_2_wrk_3_wrk_4_wrk_5_inv_14_controllers_under_faults() {
        for scenario in
            [scenarios::mirrors(), scenarios::replica_sets(), scenarios::finalizer(), scenarios::status_only()]
        {
            scenario.check(25).unwrap();
        }
    }

    #[test]
    fn wrk_11_events_are_counted_combined_and_held_back() {
        scenarios::events().check(40).unwrap();
    }

    #[test]
    fn every_schedule_of_a_night_has_a_scenario() {
        assert_eq!(scenarios::all().iter().map(|shared| shared.share).sum::<u64>(), SHARES);
    }

    #[test]
    fn sim_11_all_scenarios_are_repeated_exactly() {
        for Shared { scenario, .. } in scenarios::all().into_iter().filter(|shared| shared.share > 0) {
            for seed in 0..5 {
                assert_eq!(difference(&scenario, seed), None);
            }
        }
    }
}
