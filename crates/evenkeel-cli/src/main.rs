//! The `evenkeel` command line.
#![forbid(unsafe_code)]

mod apiserver;
mod bench;
mod connect;
mod controller;
mod demo;
mod observe;
mod output;
mod signals;
mod terminal;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Kubernetes without a cluster: an API server that runs anywhere, an informer to look at it or at any other, and a controller at
/// work.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a controller at work in a story of its own, with no cluster and nothing to set up
    Demo(demo::Arguments),
    /// Run the embedded API server for kubectl and other clients
    Apiserver(apiserver::Arguments),
    /// Show what an informer is told: every object, and everything that happens to it
    Observe(observe::Arguments),
    /// Run a controller against a cluster
    Controller(controller::Arguments),
    /// Measure the pieces, and print the figures as JSON
    Bench(bench::Arguments),
}

/// The exit code of a program whose output nobody reads any more: 128 and the number of SIGPIPE.
const BROKEN_PIPE: u8 = 141;

/// Errors end here and only need to be told.
type Failure = Box<dyn Error + Send + Sync>;

type Outcome = Result<(), Failure>;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Apiserver(arguments) => apiserver::run(arguments).await,
        Command::Observe(arguments) => observe::run(arguments).await,
        Command::Controller(arguments) => controller::run(arguments).await,
        Command::Bench(arguments) => bench::run(arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("evenkeel: {}", terminal::harmless(&chain(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// An error with all its causes, in one line. Some errors tell their cause themselves; it is not told twice.
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
