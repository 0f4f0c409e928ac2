//! `evenkeel bench`: benchmarks of single components.

mod informer;
mod process;
mod queue;

use clap::Subcommand;

use crate::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    case: Case,
}

#[derive(Debug, Subcommand)]
enum Case {
    /// Sync an informer, then wait for updates; print the results as one JSON object
    Informer(informer::Arguments),
    /// Add keys to a work queue and take them; print one JSON object for each case
    Queue(queue::Arguments),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.case {
        Case::Informer(arguments) => informer::run(arguments).await,
        Case::Queue(arguments) => queue::run(arguments).await,
    }
}
