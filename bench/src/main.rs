//! Benchmarks of evenkeel: `cargo run --profile measured -p evenkeel-bench`.
//!
//! Every line is a figure with its target, if it has one. No benchmark asserts a time; machines differ.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark reads clocks and prints")]

mod client;
mod compare;
mod data;
mod decode;
mod durable;
mod load;
mod outside;
mod pack;
mod peer;
mod pods;
mod processes;
mod reconcile;
mod replicas;
mod report;
mod server;
mod start;
mod store;
mod watch;
mod webhooks;

use std::ffi::{OsStr, OsString};

use clap::Parser;

/// Measures the embedded API server and the decoders.
#[derive(Debug, Parser)]
struct Options {
    /// The case to run: start, memory, crd, creates, large, durable, watch, decode, pack, peer, store, reconcile, or all of
    /// these; or one with options of its own: compare, which builds and runs client-go's and kube-rs' informers, or replicas,
    /// which runs informers that divide the objects among themselves.
    #[arg(default_value = "all")]
    case: String,
    /// Pods in the large cases.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    /// Watchers in the watch case.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Number of timed starts.
    #[arg(long, default_value_t = 200)]
    starts: usize,
    /// Print figures as lines of JSON, in the cases of `bench/report.sh`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    peer: peer::Peer,
    #[command(flatten)]
    store: store::Options,
    #[command(flatten)]
    reconcile: reconcile::Options,
}

/// Any error of a case.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The cases in order. Each runs in a process of its own, so that none inherits another's memory.
const CASES: &[&str] =
    &["start", "memory", "crd", "creates", "large", "durable", "watch", "decode", "pack", "peer", "store", "reconcile"];

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(OsStr::to_str) {
        Some(name @ "compare") => return compare::run(compare::Options::parse_from(own(name, arguments))),
        Some(name @ "replicas") => return replicas::run(&replicas::Options::parse_from(own(name, arguments))),
        // A child process of these cases.
        Some(name @ "load-server") => return server::serve(&server::Options::parse_from(own(name, arguments))),
        // Parts of `bench/webhooks.sh`.
        Some(name @ "webhooks") => return webhooks::run(webhooks::Options::parse_from(own(name, arguments))),
        _ => {}
    }
    let options = Options::parse();
    if options.case == "all" {
        for case in CASES {
            let arguments = std::env::args().skip(1).filter(|argument| argument != "all");
            let status = std::process::Command::new(std::env::current_exe()?).arg(case).args(arguments).status()?;
            if !status.success() {
                return Err(format!("case {case} failed").into());
            }
        }
        return Ok(());
    }
    if options.json {
        report::print_json();
    }
    if options.case == "reconcile" {
        // It builds runtimes of its own.
        return reconcile::reconcile(&options.reconcile);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match options.case.as_str() {
            "start" => start::starts(options.starts).await,
            "memory" => start::memory(),
            "idle" => start::idle().await,
            "crd" => start::definitions(options.starts).await,
            "creates" => load::creates().await,
            "large" => load::large(options.pods).await,
            "durable" => durable::durable(options.pods).await,
            "watch" => watch::fan_out(options.watchers).await,
            "decode" => decode::lists(options.pods).await,
            "pack" => pack::pack(options.pods.min(50_000)),
            "peer" => peer::compare(&options.peer).await,
            "store" => store::store(&options.store),
            other => {
                Err(format!("there is no case {other:?}; there are all, compare, replicas, {}", CASES.join(", "))
                    .into())
            }
        }
    })
}

/// Parses the command line of a case with options of its own.
fn own(name: &str, arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    [OsString::from(format!("evenkeel-bench {name}"))].into_iter().chain(arguments)
}
