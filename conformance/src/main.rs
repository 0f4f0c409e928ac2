//! Runs the same scenarios through evenkeel's informer and client-go's, and compares the results.
//!
//! A scenario is a script of writes, faults and commands to an informer. It runs twice, each time with a server of
//! its own: with client-go, in a Go program that reads commands from standard input, and with evenkeel, in this
//! process. Notifications, cache contents and, where a scenario compares them, requests are recorded in a transcript
//! with names that are the same for both. The two transcripts must be equal except for the differences that the
//! scenario lists; and a listed difference must occur.
//!
//! Without the Go program evenkeel is compared with a recording of client-go.

mod command;
mod compare;
mod evenkeel;
mod go;
mod journal;
mod player;
mod random;
mod scenario;
mod scenario_server;
mod script;
mod transcript;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::scenario::Scenario;
use crate::transcript::Transcript;

/// Any error. Scenarios and players fail with a message.
type Failure = Box<dyn Error + Send + Sync>;

/// Number of scenarios that run concurrently. Most of their time is client-go's backoff.
const CONCURRENCY: usize = 64;

/// Number of attempts before a failure counts. client-go has only the real clock: on a busy machine a watch may last
/// less than a second where it should last longer, and then client-go relists.
const ATTEMPTS: usize = 3;

#[derive(Debug, Parser)]
#[command(about = "Runs scenarios through evenkeel and client-go and compares the results")]
struct Arguments {
    /// The Go program; without it, evenkeel is compared with the recording
    #[arg(long, value_name = "PROGRAM")]
    client_go: Option<PathBuf>,
    /// Run only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Record client-go's transcripts instead of comparing
    #[arg(long, requires = "client_go")]
    record: bool,
    /// Generate so many random scenarios in addition
    #[arg(long, value_name = "N", default_value_t = 0, requires = "client_go", conflicts_with = "record")]
    random: u64,
    /// Seed of the random scenarios
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print every transcript
    #[arg(long)]
    show: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "evenkeel-conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recording = folder.join("recorded.json");
    let wanted = |scenario: &Scenario| arguments.only.as_ref().is_none_or(|only| scenario.name.contains(only.as_str()));
    let written = scenario::read_all(&folder.join("scenarios"))?;
    let random = random::scenarios(arguments.seed, arguments.random)?;
    let scenarios: Vec<Arc<Scenario>> = written.into_iter().chain(random).filter(wanted).map(Arc::new).collect();

    let program = arguments.client_go.as_deref().map(go::Program::start).transpose()?;
    if arguments.record {
        let live = live(&scenarios, program.as_ref()).await.unwrap_or_default();
        return record(&recording, live, arguments.only.is_some(), arguments.show);
    }
    let recorded: BTreeMap<String, Transcript> = serde_json::from_str(&std::fs::read_to_string(&recording)?)?;
    let mut played = Results { recorded, ..Results::default() };
    let mut doubtful = scenarios.clone();
    for attempt in 1..=ATTEMPTS {
        let (theirs, ours) = tokio::join!(live(&doubtful, program.as_ref()), run_all(&doubtful, evenkeel::InProcess));
        played.live.extend(theirs.unwrap_or_default());
        played.ours.extend(ours);
        doubtful.retain(|scenario| !played.mismatches(scenario).is_empty());
        if doubtful.is_empty() || attempt == ATTEMPTS {
            break;
        }
        let names: Vec<&str> = doubtful.iter().map(|scenario| scenario.name.as_str()).collect();
        writeln!(io::stderr(), "retrying: {}", names.join(", "))?;
    }

    let mut out = io::stdout().lock();
    let mut failed = 0;
    for scenario in &scenarios {
        if let (true, Some(Ok(ours))) = (arguments.show, played.ours.get(&scenario.name)) {
            writeln!(out, "== {} (evenkeel)\n{ours}", scenario.name)?;
        }
        let differences = match scenario.differences.len() {
            0 => String::new(),
            1 => ", except for the listed difference".to_owned(),
            listed => format!(", except for {listed} listed differences"),
        };
        let mismatches = played.mismatches(scenario);
        if mismatches.is_empty() {
            writeln!(out, "ok    {}{differences}", scenario.name)?;
            continue;
        }
        failed += 1;
        writeln!(out, "FAIL  {}", scenario.name)?;
        for complaint in mismatches {
            writeln!(out, "      {}", complaint.replace('\n', "\n      "))?;
        }
    }
    let against = if program.is_some() { "client-go" } else { "the recording of client-go" };
    writeln!(out, "{} scenarios against {against}, {failed} failed", scenarios.len())?;
    Ok(failed == 0)
}

type Transcripts = BTreeMap<String, Result<Transcript, Failure>>;

/// The transcripts of all clients.
#[derive(Default)]
struct Results {
    recorded: BTreeMap<String, Transcript>,
    live: Transcripts,
    ours: Transcripts,
}

impl Results {
    /// Returns the mismatches of a scenario.
    fn mismatches(&self, scenario: &Scenario) -> Vec<String> {
        let mut mismatches = Vec::new();
        let mut theirs = self.recorded.get(&scenario.name);
        if theirs.is_none() && !scenario.is_made_up {
            mismatches.push("client-go has not been recorded; run with --record".to_owned());
        }
        match self.live.get(&scenario.name) {
            Some(Err(error)) => mismatches.push(format!("client-go did not finish: {error}")),
            Some(Ok(live)) => {
                if let Some(recorded) = theirs {
                    mismatches.extend(compare::stale(recorded, live));
                }
                theirs = Some(live);
            }
            None => {}
        }
        match (self.ours.get(&scenario.name), theirs) {
            (Some(Ok(ours)), Some(theirs)) => mismatches.extend(compare::compare(scenario, theirs, ours)),
            (Some(Err(error)), _) => mismatches.push(format!("evenkeel did not finish: {error}")),
            _ => {}
        }
        mismatches
    }
}

/// Runs scenarios with client-go, if the program is given.
async fn live(scenarios: &[Arc<Scenario>], program: Option<&go::Program>) -> Option<Transcripts> {
    match program {
        Some(program) => Some(run_all(scenarios, program.clone()).await),
        None => None,
    }
}

/// Runs all scenarios with a client.
async fn run_all<C: player::Client>(scenarios: &[Arc<Scenario>], client: C) -> Transcripts {
    let turns = Arc::new(Semaphore::new(CONCURRENCY));
    let mut playing = JoinSet::new();
    for scenario in scenarios {
        let (scenario, client, turns) = (Arc::clone(scenario), client.clone(), Arc::clone(&turns));
        playing.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let transcript = player::run(&scenario, client).await;
            (scenario.name.clone(), transcript)
        });
    }
    let mut transcripts = Transcripts::new();
    while let Some(played) = playing.join_next().await {
        // A player that panicked has no transcript; its scenario is reported below.
        if let Ok((name, transcript)) = played {
            transcripts.insert(name, transcript);
        }
    }
    for scenario in scenarios {
        transcripts.entry(scenario.name.clone()).or_insert_with(|| Err("the player panicked".into()));
    }
    transcripts
}

fn record(path: &Path, live: Transcripts, only_some: bool, show: bool) -> Result<bool, Failure> {
    let mut recorded: BTreeMap<String, Transcript> = match only_some {
        true => serde_json::from_str(&std::fs::read_to_string(path)?)?,
        false => BTreeMap::new(),
    };
    let mut out = io::stdout().lock();
    let mut complete = true;
    for (name, transcript) in live {
        match transcript {
            Ok(transcript) => {
                if show {
                    writeln!(out, "== {name} (client-go)\n{transcript}")?;
                }
                recorded.insert(name, transcript);
            }
            Err(error) => {
                complete = false;
                writeln!(out, "FAIL  {name}: {error}")?;
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&recorded)?;
    text.push('\n');
    std::fs::write(path, text)?;
    writeln!(out, "{} scenarios recorded", recorded.len())?;
    Ok(complete)
}
