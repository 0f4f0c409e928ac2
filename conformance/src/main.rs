//! The same scenarios through evenkeel's informer and through client-go's, and what each of them says.
//!
//! A scenario is a script of writes, faults and things that are asked of an informer. It is played twice, each time with a
//! server of its own: once for client-go, which runs in a Go program that takes its orders on standard input, and once for
//! evenkeel, in this process. What the handlers were told, what the cache answers and, where a scenario asks for it, which
//! requests were made is written down in words that are the same for both: a transcript. The two transcripts must be equal,
//! but for the differences that the scenario lists; and a difference that is listed must occur.
//!
//! Without the Go program evenkeel is held against what client-go said when the recording was made.

mod command;
mod evenkeel;
mod go;
mod journal;
mod play;
mod random;
mod scenario;
mod script;
mod stage;
mod transcript;
mod verdict;

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

/// Whatever went wrong. Scenarios and their players fail with words for people.
type Failure = Box<dyn Error + Send + Sync>;

/// How many scenarios play at the same time. Most of their time is spent waiting for client-go's back-off.
const SIDE_BY_SIDE: usize = 64;

/// How often a scenario is played before what is wrong with it counts. client-go knows only the real clock: on a busy machine
/// a watch may last for less than a second where it was to last longer, and then it lists once more.
const ATTEMPTS: usize = 3;

#[derive(Debug, Parser)]
#[command(about = "Plays scenarios through evenkeel and through client-go, and compares what they say")]
struct Arguments {
    /// The Go program; without it, the recording stands in for client-go
    #[arg(long, value_name = "PROGRAM")]
    client_go: Option<PathBuf>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write what client-go says into the recording, instead of comparing
    #[arg(long, requires = "client_go")]
    record: bool,
    /// Make up so many scenarios besides
    #[arg(long, value_name = "N", default_value_t = 0, requires = "client_go", conflicts_with = "record")]
    random: u64,
    /// What they are made from
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
    let made_up = random::scenarios(arguments.seed, arguments.random)?;
    let scenarios: Vec<Arc<Scenario>> = written.into_iter().chain(made_up).filter(wanted).map(Arc::new).collect();

    let program = arguments.client_go.as_deref().map(go::Program::start).transpose()?;
    if arguments.record {
        let live = live(&scenarios, program.as_ref()).await.unwrap_or_default();
        return record(&recording, live, arguments.only.is_some(), arguments.show);
    }
    let recorded: BTreeMap<String, Transcript> = serde_json::from_str(&std::fs::read_to_string(&recording)?)?;
    let mut played = Played { recorded, ..Played::default() };
    let mut doubtful = scenarios.clone();
    for attempt in 1..=ATTEMPTS {
        let (theirs, ours) = tokio::join!(live(&doubtful, program.as_ref()), play_all(&doubtful, evenkeel::InProcess));
        played.live.extend(theirs.unwrap_or_default());
        played.ours.extend(ours);
        doubtful.retain(|scenario| !played.complaints(scenario).is_empty());
        if doubtful.is_empty() || attempt == ATTEMPTS {
            break;
        }
        let names: Vec<&str> = doubtful.iter().map(|scenario| scenario.name.as_str()).collect();
        writeln!(io::stderr(), "played again: {}", names.join(", "))?;
    }

    let mut out = io::stdout().lock();
    let mut failed = 0;
    for scenario in &scenarios {
        if let (true, Some(Ok(ours))) = (arguments.show, played.ours.get(&scenario.name)) {
            writeln!(out, "== {} (evenkeel)\n{ours}", scenario.name)?;
        }
        let differences = match scenario.differences.len() {
            0 => String::new(),
            1 => ", but for the difference that is listed".to_owned(),
            listed => format!(", but for the {listed} differences that are listed"),
        };
        let complaints = played.complaints(scenario);
        if complaints.is_empty() {
            writeln!(out, "ok    {}{differences}", scenario.name)?;
            continue;
        }
        failed += 1;
        writeln!(out, "FAIL  {}", scenario.name)?;
        for complaint in complaints {
            writeln!(out, "      {}", complaint.replace('\n', "\n      "))?;
        }
    }
    let against = if program.is_some() { "client-go" } else { "the recording of client-go" };
    writeln!(out, "{} scenarios against {against}, {failed} failed", scenarios.len())?;
    Ok(failed == 0)
}

type Transcripts = BTreeMap<String, Result<Transcript, Failure>>;

/// What everybody said.
#[derive(Default)]
struct Played {
    recorded: BTreeMap<String, Transcript>,
    live: Transcripts,
    ours: Transcripts,
}

impl Played {
    /// What is wrong with a scenario.
    fn complaints(&self, scenario: &Scenario) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut theirs = self.recorded.get(&scenario.name);
        if theirs.is_none() && !scenario.is_made_up {
            complaints.push("client-go has not been recorded; run with --record".to_owned());
        }
        match self.live.get(&scenario.name) {
            Some(Err(error)) => complaints.push(format!("client-go did not finish: {error}")),
            Some(Ok(live)) => {
                if let Some(recorded) = theirs {
                    complaints.extend(verdict::stale(recorded, live));
                }
                theirs = Some(live);
            }
            None => {}
        }
        match (self.ours.get(&scenario.name), theirs) {
            (Some(Ok(ours)), Some(theirs)) => complaints.extend(verdict::compare(scenario, theirs, ours)),
            (Some(Err(error)), _) => complaints.push(format!("evenkeel did not finish: {error}")),
            _ => {}
        }
        complaints
    }
}

/// Plays scenarios with client-go, if it is here.
async fn live(scenarios: &[Arc<Scenario>], program: Option<&go::Program>) -> Option<Transcripts> {
    match program {
        Some(program) => Some(play_all(scenarios, program.clone()).await),
        None => None,
    }
}

/// Plays all scenarios with a client.
async fn play_all<C: play::Client>(scenarios: &[Arc<Scenario>], client: C) -> Transcripts {
    let turns = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let mut playing = JoinSet::new();
    for scenario in scenarios {
        let (scenario, client, turns) = (Arc::clone(scenario), client.clone(), Arc::clone(&turns));
        playing.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let transcript = play::play(&scenario, client).await;
            (scenario.name.clone(), transcript)
        });
    }
    let mut transcripts = Transcripts::new();
    while let Some(played) = playing.join_next().await {
        // A player that panicked leaves no transcript, and its scenario is reported as missing.
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
