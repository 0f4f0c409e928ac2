//! The `evenkeel` command line.
#![forbid(unsafe_code)]

mod apiserver;
mod bench;
mod connect;
mod controller;
mod demo;
mod new;
mod observe;
mod output;
mod rbac;
mod resolve;
mod ring;
mod selection;
mod signals;
mod terminal;
mod wait;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kubernetes without a cluster: an embedded API server, an informer for any API server, and operators to start from.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a sample controller against an embedded API server; no cluster and no setup needed
    Demo(demo::Arguments),
    /// Run the embedded API server for kubectl and other clients
    Apiserver(Box<apiserver::Arguments>),
    /// Print every notification of an informer: adds, updates and deletes of a resource
    Observe(observe::Arguments),
    /// Write the project of an operator: a kind, a controller, tests, manifests
    New(new::Arguments),
    /// Compute the minimal roles of a program from what it used, or check the roles that it has
    Rbac(rbac::Arguments),
    /// Wait until objects are created or deleted, or meet a condition
    Wait(wait::Arguments),
    /// Show which replica of a sharded controller owns what, from the Leases of its ring
    Ring(ring::Arguments),
    /// Run a controller against a cluster
    Controller(controller::Arguments),
    /// Run benchmarks and print the results as JSON
    Bench(bench::Arguments),
}

/// Exit code of a program whose standard output is closed: 128 plus the number of SIGPIPE.
const BROKEN_PIPE: u8 = 141;

/// Exit code of a wait whose condition can no longer be met.
const NEVER_MET: u8 = 3;

/// An error that is only printed.
type Failure = Box<dyn Error + Send + Sync>;

type Outcome = Result<(), Failure>;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Apiserver(arguments) => apiserver::run(*arguments).await,
        Command::Observe(arguments) => observe::run(arguments).await,
        Command::New(arguments) => new::run(arguments).await,
        Command::Rbac(arguments) => rbac::run(arguments).await,
        Command::Wait(arguments) => wait::run(arguments).await,
        Command::Ring(arguments) => ring::run(arguments).await,
        Command::Controller(arguments) => controller::run(arguments).await,
        Command::Bench(arguments) => bench::run(arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("evenkeel: {}", terminal::sanitize(&chain(error.as_ref())));
            if error.is::<wait::NeverMet>() { ExitCode::from(NEVER_MET) } else { ExitCode::FAILURE }
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats an error and its causes in one line. A cause that its parent already prints is not repeated.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
