//! Simulates parts of evenkeel with a number of seeds, and reports what was tried.
//!
//! ```text
//! cargo run --release -p evenkeel-simulation                         # ten seeds of each scenario
//! cargo run --release -p evenkeel-simulation -- --seeds 250000       # a night
//! ```
//!
//! `--first N` starts at another seed, `--threads N` sets the number of threads, a name runs one scenario. One run in a hundred is repeated, and must
//! have the same trace hash. The exit code is 1 if an invariant was broken; its replay line is printed.

#![allow(clippy::print_stdout, reason = "a report is printed")]

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_sim::{Failed, Report, Scenario};
use evenkeel_simulation::scenarios;

/// Seeds that a thread takes at a time.
const BATCH: u64 = 25;
/// One run in this many is repeated.
const REPEATED: u64 = 100;

struct Options {
    seeds: u64,
    first: u64,
    threads: u64,
    only: Option<String>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { seeds: 10, first: 0, threads: 2, only: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> {
            let value = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            Ok(value.parse().map_err(|_| format!("{argument} needs a number, not {value:?}"))?)
        };
        match argument.as_str() {
            "--seeds" => options.seeds = number()?,
            "--first" => options.first = number()?,
            "--threads" => options.threads = number()?.max(1),
            name if !name.starts_with('-') => options.only = Some(name.to_owned()),
            unknown => return Err(format!("unknown option {unknown}: see the head of this file").into()),
        }
    }
    Ok(options)
}

/// What the seeds of one thread have shown.
#[derive(Default)]
struct Outcome {
    report: Report,
    repeated: u64,
    failures: Vec<String>,
}

/// Runs every `threads`-th batch of seeds.
fn run(scenario: &Scenario, options: &Options, thread: u64) -> Outcome {
    let mut outcome = Outcome::default();
    for start in (0..options.seeds).step_by(BATCH as usize).filter(|start| start / BATCH % options.threads == thread) {
        let first = options.first + start;
        match scenario.check_from(first, BATCH.min(options.seeds - start)) {
            Ok(report) => outcome.report.merge(&report),
            Err(failed) => outcome.failures.push(shown(&failed)),
        }
        if start % REPEATED == 0 {
            outcome.repeated += 1;
            outcome.failures.extend(difference(scenario, first));
        }
    }
    outcome
}

fn shown(failed: &Failed) -> String {
    format!("{}\n  {}", failed.replay_line(), failed.failure())
}

/// Runs a seed twice. Returns where the two runs differ.
fn difference(scenario: &Scenario, seed: u64) -> Option<String> {
    let run = || scenario.replay(&format!("seed={seed:#x}")).ok().map(|run| run.trace);
    let (first, second) = (run()?, run()?);
    if first.hash() == second.hash() {
        return None;
    }
    let lines = first.lines().iter().zip(second.lines()).find(|(first, second)| first != second);
    let lines = lines.map(|(first, second)| format!("{first}\n  {second}")).unwrap_or_default();
    Some(format!("seed {seed:#x} of {} is not repeated exactly:\n  {lines}", scenario.name()))
}

#[allow(clippy::disallowed_methods, reason = "the program measures how long it takes")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options()?;
    let mut has_failed = false;
    for scenario in scenarios::all() {
        if options.only.as_ref().is_some_and(|only| *only != scenario.name()) {
            continue;
        }
        let started = Instant::now();
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let threads = (0..options.threads).map(|thread| {
                scope.spawn({
                    let (scenario, options) = (scenario.clone(), &options);
                    move || run(&scenario, options, thread)
                })
            });
            threads.collect::<Vec<_>>().into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let took = started.elapsed() * u32::try_from(options.threads).unwrap_or(1);
        let mut total = Outcome::default();
        for outcome in outcomes {
            total.report.merge(&outcome.report);
            total.repeated += outcome.repeated;
            total.failures.extend(outcome.failures);
        }
        print(&scenario, &total, took);
        has_failed |= !total.failures.is_empty();
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(scenario: &Scenario, total: &Outcome, took: Duration) {
    let Outcome { report, repeated, failures } = total;
    let years = report.simulated.as_secs_f64() / (365.25 * 86_400.0);
    let ratio = report.simulated.as_secs_f64() / took.as_secs_f64();
    let each = took.as_secs_f64() * 1000.0 / report.runs.max(1) as f64;
    println!("{}: {report}", scenario.name());
    println!("  {years:.3} simulated years, {ratio:.0} times the time of the threads, {each:.1} ms per run");
    println!("  {repeated} runs repeated; {} failures", failures.len());
    failures.iter().for_each(|failure| println!("  {failure}"));
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::Fault;

    use super::*;

    #[test]
    fn wrk_9_wrk_10_inv_1_inv_2_inv_3_inv_4_an_informer_under_faults() {
        let report = scenarios::informer().check(80).unwrap();
        // It has watches and WatchLists only: no writes, no pages.
        let missing: Vec<_> = Fault::ALL.iter().filter(|fault| !report.faults.contains_key(fault)).collect();
        let impossible = [Fault::PageExpires, Fault::Slow, Fault::ResponseLost, Fault::WriteLost, Fault::Rival];
        // Only relists, and only WatchLists, have these; they have tests of their own.
        let rare = [Fault::VersionTooLarge, Fault::InitialEndMissing];
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
    fn sim_11_all_scenarios_are_repeated_exactly() {
        for scenario in scenarios::all() {
            for seed in 0..5 {
                assert_eq!(difference(&scenario, seed), None);
            }
        }
    }
}
