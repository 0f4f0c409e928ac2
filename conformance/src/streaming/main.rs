//! Runs sessions of evenkeel's client against the streaming server of Kubernetes: exec, attach and port-forward.
//!
//! The server is the Go program of `streaming/`: the code of kube-apiserver and of container runtimes, with commands and
//! ports that are functions. Every scenario runs against both of its API servers: `current` speaks v5 channels and the SPDY
//! tunnel, `old` only v4 channels.

mod env;
mod exec;
mod failures;
mod forward;
mod pattern;
mod relay;

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::env::{Env, Server, StreamingServer};

/// Any error. Scenarios fail with a message.
type Failure = Box<dyn Error + Send + Sync>;

/// The result of a scenario: what was seen.
type Outcome = Result<String, Failure>;

/// Number of scenarios that run concurrently.
const CONCURRENCY: usize = 8;

/// The longest time of a scenario. It only ends sessions that hang.
const LIMIT: Duration = Duration::from_secs(180);

#[derive(Debug, Parser)]
#[command(about = "Runs sessions of evenkeel's client against the streaming server of Kubernetes")]
struct Arguments {
    /// The Go program of conformance/streaming
    #[arg(long, value_name = "PROGRAM")]
    server: PathBuf,
    /// Run only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A session and what must become of it.
struct Scenario {
    name: &'static str,
    run: fn(Env) -> Pin<Box<dyn Future<Output = Outcome> + Send>>,
}

/// Lists functions as scenarios, with names from those of the functions.
macro_rules! scenarios {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        vec![$($(Scenario { name: stringify!($name), run: |env| Box::pin($module::$name(env)) }),*),*]
    };
}

fn all() -> Vec<Scenario> {
    scenarios! {
        exec:
            exit_codes, both_outputs, no_output, all_byte_values, end_of_input, terminal_sizes, a_hundred_megabytes_in_and_out,
            a_hundred_megabytes_out, attach, containers, fifty_sessions, heartbeat;
        failures:
            command_not_found, failed_without_exit_code, pod_not_found, container_not_found, connection_cut, dropped_handle,
            dropped_handle_of_a_writer, stopped_reader, dropped_output, input_after_the_end;
        forward:
            echo, a_hundred_megabytes_from_a_port, a_hundred_megabytes_to_a_port, many_streams, refused_port, missing_pod,
            forward_cut, local_port, dropped_stream, stopped_reader_of_a_port;
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "evenkeel-conformance-streaming: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let streaming = StreamingServer::start(&arguments.server).await?;
    let turns = Arc::new(Semaphore::new(CONCURRENCY));
    let mut running = JoinSet::new();
    let mut scenarios = all();
    scenarios.retain(|scenario| arguments.only.as_ref().is_none_or(|only| scenario.name.contains(only.as_str())));
    for (index, scenario) in scenarios.iter().enumerate() {
        for server in [Server::Current, Server::Old] {
            let (session, turns) = ((scenario.run)(streaming.env(server)), Arc::clone(&turns));
            running.spawn(async move {
                let _turn = turns.acquire_owned().await;
                let outcome = tokio::time::timeout(LIMIT, session).await;
                (index, server, outcome.unwrap_or_else(|_| Err("it hangs".into())))
            });
        }
    }
    let mut outcomes: Vec<[Option<Outcome>; 2]> = scenarios.iter().map(|_| [None, None]).collect();
    while let Some(ended) = running.join_next().await {
        // A scenario that panicked has no outcome, and fails.
        if let Ok((index, server, outcome)) = ended
            && let Some(cell) = outcomes.get_mut(index).and_then(|row| row.get_mut(server as usize))
        {
            *cell = Some(outcome);
        }
    }
    report(&scenarios, &outcomes)
}

fn report(scenarios: &[Scenario], outcomes: &[[Option<Outcome>; 2]]) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let mut failed = 0;
    for (scenario, outcomes) in scenarios.iter().zip(outcomes) {
        let name = scenario.name.replace('_', " ");
        for (server, outcome) in ["current", "old"].into_iter().zip(outcomes) {
            match outcome {
                Some(Ok(seen)) => writeln!(out, "ok    {name:<32} {server:<8} {seen}")?,
                Some(Err(error)) => {
                    failed += 1;
                    writeln!(out, "FAIL  {name:<32} {server:<8} {error}")?;
                }
                None => {
                    failed += 1;
                    writeln!(out, "FAIL  {name:<32} {server:<8} it panicked")?;
                }
            }
        }
    }
    let number = scenarios.len();
    writeln!(out, "{number} scenarios, each against both servers of Kubernetes' streaming code, {failed} failed")?;
    Ok(failed == 0 && number > 0)
}
