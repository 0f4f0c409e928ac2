//! What a replica costs: informers that divide the objects among themselves by uid, each in a process of its own.
//!
//! `cargo run --profile measured -p evenkeel-bench -- replicas`; docs/sharding.md has the figures.
//!
//! All replicas of a run start at once, sync, wait for two quiet seconds, and receive a storm of updates. The server filters, or
//! it ignores their selectors, so that every replica receives everything and drops what is out of range. The difference of both
//! runs in processor time is what a dropped object costs. A replica ends with the standard input that it has from this process.

mod model;
mod run;
mod table;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::model::Costs;
use self::run::{Outcome, Scenario};
use crate::Failure;
use crate::compare::cases::thousands;
use crate::compare::machine;
use crate::compare::programs::cargo_build;
use crate::data::Data;
use crate::processes::LoadServer;
use crate::server::wire::Wire;

/// Measures replicas that divide the objects among themselves.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Pods.
    #[arg(long, default_value_t = 200_000)]
    objects: usize,
    /// Updates in the storm [default: half the number of pods].
    #[arg(long)]
    updates: Option<usize>,
    /// Numbers of replicas; one replica runs in any case.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    counts: Vec<u32>,
    /// Wire formats.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "protobuf,json")]
    wires: Vec<Wire>,
    /// Rounds of all runs.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// 2,000 pods, up to two replicas and one round, as a smoke test of half a minute.
    #[arg(long)]
    quick: bool,
    /// Profile that evenkeel is built with.
    #[arg(long, default_value = "measured")]
    profile: String,
    /// File for all figures of all runs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// File for the constants of the cost model.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

impl Options {
    /// Returns the numbers of pods, updates and rounds, and the numbers of replicas in ascending order.
    fn scale(&self) -> (usize, usize, u32, Vec<u32>) {
        let objects = if self.quick { 2_000 } else { self.objects };
        let mut counts = if self.quick { vec![1, 2] } else { self.counts.clone() };
        counts.push(1);
        counts.sort_unstable();
        counts.dedup();
        (objects, self.updates.unwrap_or(objects / 2), if self.quick { 1 } else { self.rounds }, counts)
    }
}

/// Runs all numbers of replicas in all ways, and prints tables and the cost model.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let (objects, updates, rounds, counts) = options.scale();
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    eprintln!("building evenkeel, profile {}", options.profile);
    let program = cargo_build(bench, &["--profile", &options.profile, "-p", "evenkeel-cli"])?;
    eprintln!("generating {} pods", thousands(objects));
    let server = LoadServer::start(Data::Pods, objects, &options.wires, updates, &mut || {})?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for round in 0..rounds {
        for wire in &options.wires {
            for replicas in &counts {
                for filters in [true, false] {
                    let scenario = Scenario { wire: *wire, filters, replicas: *replicas, round, updates };
                    eprintln!("{scenario}");
                    outcomes
                        .push(run::run(&program, &server, scenario).map_err(|error| format!("{scenario}: {error}"))?);
                }
            }
        }
    }
    drop(server);

    let machine = machine();
    println!("{machine}");
    let (mut tables, mut models) = (json!({}), json!({}));
    for wire in &options.wires {
        let runs: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.scenario.wire == *wire).collect();
        let rows = table::rows(&runs, &counts);
        let title = format!("{} pods, {}", thousands(objects), wire.name());
        println!("\n### {title}\n\n{}", table::markdown(&rows, &counts));
        tables[format!("replicas-{}", wire.name())] = table::json(&rows, &counts, &title, rounds);
        if let Some(costs) = Costs::fit(&runs) {
            println!("{costs}");
            models[wire.name()] = json!(costs);
        }
    }
    let write = |file: &Option<PathBuf>, content: Value| match file {
        Some(file) => std::fs::write(file, format!("{content:#}\n")),
        None => Ok(()),
    };
    let list = |items: Vec<String>| items.join(",");
    let counts = list(counts.iter().map(u32::to_string).collect());
    let wires = list(options.wires.iter().map(|wire| wire.name().to_owned()).collect());
    let profile = &options.profile;
    let command = format!(
        "cargo run --profile {profile} -p evenkeel-bench -- replicas --profile {profile} --objects {objects} \
         --updates {updates} --counts {counts} --wires {wires} --rounds {rounds}"
    );
    write(&options.model, json!({"command": command, "machine": machine, "costs": models}))?;
    write(&options.json, json!({"tables": tables, "costs": models, "runs": outcomes, "machine": machine}))?;
    Ok(())
}
