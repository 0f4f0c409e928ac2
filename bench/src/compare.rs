//! Compares informers of evenkeel, client-go and kube-rs, on the same server and the same objects in one run.
//!
//! `cargo run --profile measured -p evenkeel-bench -- compare`; `bench/README.md` explains each figure and what is not fair.
//!
//! Each program is a command line with `--server`, `--wire`, `--data` and the steps of the case. It syncs informers
//! with a counting handler, waits for two quiet seconds, and prints a message; then follow updates, single updates
//! and reads, as its arguments require. At the end it prints one line of JSON with its figures. Before the updates
//! the server ends the watch with 410, and the memory during the relist is measured from the outside.
//!
//! The programs take turns for several rounds, with the server in a process of its own. Ratios are computed within a
//! round, so that other load on the machine affects both sides. A program that fails or hangs is reported, and the
//! others continue.

pub(crate) mod cases;
mod measures;
mod plot;
pub(crate) mod programs;
mod progress;
pub(crate) mod results;
mod run;
pub(crate) mod table;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use self::cases::{Case, Scale};
use self::measures::MEASURES;
use self::programs::{OURS, Program};
use self::progress::{Plan, Progress, words};
use self::results::Results;
use crate::Failure;
use crate::processes::LoadServer;
use crate::server::wire::Wire;

/// Measures evenkeel's informers beside client-go's and kube-rs'.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Rounds per program; cases that show growth or other data run at most twice.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Cases: informer, small, large, light, kinds, secrets, endpointslices, documents [default: all].
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Pods of the case informer; the others scale in proportion.
    #[arg(long)]
    objects: Option<usize>,
    /// Updates in a storm [default: twice the number of pods].
    #[arg(long)]
    updates: Option<usize>,
    /// Small numbers and one round, as a smoke test.
    #[arg(long)]
    quick: bool,
    /// evenkeel only, with twenty times the objects, beside itself with the usual number.
    #[arg(long)]
    million: bool,
    /// Programs: evenkeel, client-go, client-go-list, kube-rs, kube-rs-streaming.
    #[arg(long, value_delimiter = ',', default_value = "evenkeel,client-go,client-go-list,kube-rs")]
    programs: Vec<String>,
    /// Wire formats; with --million, protobuf only by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    wires: Vec<Wire>,
    /// File for a plot.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// File for all figures of all rounds.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    fn scale(&self) -> Scale {
        let objects = self.objects.unwrap_or(if self.quick { 2_000 } else { 50_000 });
        Scale {
            objects,
            updates: self.updates.unwrap_or(objects * 2),
            latency: if self.quick { 200 } else { 1_000 },
            rounds: if self.quick { 1 } else { self.rounds.max(1) },
        }
    }

    fn wires(&self) -> Vec<Wire> {
        match (self.wires.is_empty(), self.million) {
            (true, true) => vec![Wire::Protobuf],
            (true, false) => vec![Wire::Json, Wire::Protobuf],
            (false, _) => self.wires.clone(),
        }
    }
}

/// Builds, runs and compares all programs, and prints the tables.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    let cases = cases::cases(&options.cases, options.million, &options.wires(), options.scale())?;
    let programs = programs::build(&options.programs, |name| eprintln!("building {name}"))?;
    let names: Vec<&'static str> = programs.iter().map(|program| program.name).collect();
    let plan = plan(&cases, &programs);
    eprintln!("{} runs, about {}", plan.len(), words(plan.left()));
    let mut progress = Progress::new(plan);
    let mut results = Results::default();
    for case in &cases {
        if let Err(error) = measure(case, &programs, &mut results, &mut progress) {
            progress.say(&format!("{} could not be measured: {error}", case.name));
        }
    }
    drop(progress);

    println!("{}", machine());
    print!("{}", table::tables(&results, &cases, &names));
    if options.million {
        let grown = MEASURES.iter().filter(|measure| measure.figure.contains("per_object"));
        println!();
        grown.for_each(|measure| print!("{}", table::growth(&results, &cases, measure)));
    }
    println!("\n{}", table::legend(&results, &names));
    if let Some(file) = &options.svg {
        std::fs::write(file, plot::plot(&results, &cases, &names))?;
    }
    if let Some(file) = &options.json {
        let mut all = results.json(&cases, &names);
        all["machine"] = json!(machine());
        all["versions"] = names.iter().map(|name| (*name, json!(results.version(name)))).collect::<Value>();
        std::fs::write(file, format!("{all:#}\n"))?;
    }
    Ok(())
}

/// Runs the programs of a case in turns.
fn measure(case: &Case, programs: &[Program], results: &mut Results, progress: &mut Progress) -> Result<(), Failure> {
    progress.step(format!("making {}", case.title));
    let server =
        LoadServer::start(case.data, case.objects, &case.wires, case.updates + case.latency, &mut || progress.tick());
    progress.done();
    let server = server?;
    let turns = turns(case, programs);
    for round in 0..case.rounds {
        for turn in 0..turns.len() {
            // Rotates, so that no program always runs first or after the same other.
            let (program, wire) = turns[(round + turn) % turns.len()];
            let (rounds, title) = (case.rounds, &case.title);
            progress.step(format!("round {} of {rounds}: {title}, {}, {}", round + 1, wire.name(), program.name));
            if results.failures_of(case, wire, program.name) < PATIENCE {
                let outcome = run::run(program, &server, case, wire, &mut || progress.tick());
                let outcome = outcome.map_err(|error| error.to_string());
                if let Err(error) = &outcome {
                    progress.say(&format!("{} failed: {error}", program.name));
                }
                results.add(case, wire, program.name, round, outcome);
            }
            progress.done();
        }
    }
    Ok(())
}

/// Number of failures after which a program is skipped.
const PATIENCE: usize = 2;

/// Returns the programs and formats of a round.
fn turns<'a>(case: &Case, programs: &'a [Program]) -> Vec<(&'a Program, Wire)> {
    let all = case.wires.iter().flat_map(|wire| programs.iter().map(|program| (program, *wire)));
    all.filter(|(program, wire)| program.can(case, *wire)).collect()
}

/// Returns all steps with their last measured duration, on two idle cores.
fn plan(cases: &[Case], programs: &[Program]) -> Plan {
    let mut plan = Plan::default();
    for case in cases {
        let bytes = case.objects + case.updates;
        plan.add(case.name, Duration::from_micros(60) * (bytes * case.wires.len()) as u32);
        for _ in 0..case.rounds {
            for (program, wire) in turns(case, programs) {
                let key = format!("{} {} {}", case.name, wire.name(), program.name);
                plan.add(key, guess(case, program.name, wire));
            }
        }
    }
    plan
}

fn guess(case: &Case, program: &str, wire: Wire) -> Duration {
    // Per synced object and per update, in microseconds.
    let (sync, update) = match (program, wire) {
        (OURS, Wire::Json) => (25, 20),
        (OURS, Wire::Protobuf) => (12, 12),
        ("client-go", Wire::Json) => (200, 80),
        (_, Wire::Protobuf) => (70, 60),
        ("client-go-list", Wire::Json) => (100, 80),
        _ => (90, 100),
    };
    let quiet = Duration::from_millis(if case.updates > 0 { 10_500 } else { 2_500 });
    let syncs = if case.updates > 0 { 2 } else { 1 };
    let reads = Duration::from_secs(if case.reads { 5 } else { 0 });
    let work =
        Duration::from_micros((sync * syncs * case.objects + update * case.updates + 3_200 * case.latency) as u64);
    quiet + reads + work
}

/// Describes the machine.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gigabytes = memory.unwrap_or(0.0) * 1024.0 / 1e9;
    format!(
        "{cores} cores of {model}, {gigabytes:.0} GB; server and programs share them, over loopback, HTTP/1.1, no TLS"
    )
}
