//! Informers side by side: evenkeel's, client-go's and kube-rs', on the same server and the same pods in one run.
//!
//! `cargo run --release -p evenkeel-bench -- informer [--objects 50000] [--updates 100000] [--rounds 3]`
//!
//! Each program is a command line that is given `--server`, `--objects` and `--updates`. It syncs an informer of all pods
//! with an index by namespace and one handler that counts, lets two quiet seconds pass, waits for the updates, and prints
//! one line of JSON: `objects`, `sync_wall_s`, `sync_cpu_s`, `rss_peak_kb` (until the quiet seconds were over),
//! `rss_steady_kb` (then), `updates`, `storm_wall_s` and `storm_cpu_s` (from the first update to the last) and
//! `events_per_s`. Programs know nothing of what is done to them: between syncing and updates the server ends their watch
//! with 410, and how far memory rises while they list anew is seen from outside. A relist repeats objects, so only new
//! versions count as updates. client-go's adds `rss_gc_kb`: what is left at the very end, when its collector was made to
//! give back all it can.
//!
//! The programs take turns for several rounds, with the server in a process of its own. Ratios are taken within a round,
//! so that whatever else the machine does touches both sides.

mod outside;
mod pods;
mod programs;
mod round;
mod server;
mod table;

use serde_json::json;

use crate::Failure;

/// What is measured, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many pods the informers hold, and the store of the case store.
    #[arg(long, default_value_t = 50_000)]
    pub(crate) objects: usize,
    /// How many updates they are sent.
    #[arg(long, default_value_t = 100_000)]
    updates: usize,
    /// How often each program runs.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Whose informers: evenkeel, client-go, kube-rs; and, the way that is not their default, client-go-list (lists, then
    /// watches) and kube-rs-streaming (has the list streamed by the watch).
    #[arg(long, value_delimiter = ',', default_value = "evenkeel,client-go,kube-rs")]
    programs: Vec<String>,
}

/// Runs everything and prints the table.
pub(crate) async fn compare(options: &Options) -> Result<(), Failure> {
    let programs = programs::build(&options.programs)?;
    let server = round::Server::start(options.objects).await?;
    let mut results = table::Results::new(&programs);
    for round in 0..options.rounds {
        for turn in 0..programs.len() {
            // Nobody always runs first, or always after the same other.
            let index = (round + turn) % programs.len();
            eprintln!("round {} of {}: {}", round + 1, options.rounds, programs[index].name);
            let figures = round::run(&programs[index], &server, options.objects, options.updates).await?;
            results.add(index, figures);
        }
    }
    results.print();
    let run = json!({"benchmark": "informer", "objects": options.objects, "updates": options.updates});
    println!("\n{}", results.json(run));
    Ok(())
}

/// The server's process.
pub(crate) async fn serve(options: &Options) -> Result<(), Failure> {
    server::serve(options.objects).await
}
