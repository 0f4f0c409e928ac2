//! `evenkeel bench`: what the pieces cost.

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
    /// Sync an informer of all pods, then wait for updates; print what it took as one JSON object
    Informer(informer::Arguments),
    /// Put keys into a work queue and take them out; print what it took, one JSON object for each case
    Queue(queue::Arguments),
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    match arguments.case {
        Case::Informer(arguments) => informer::run(arguments).await,
        Case::Queue(arguments) => queue::run(arguments).await,
    }
}
