//! Runs several replicas at once.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::processes::{LoadServer, Process, lines, wait};
use crate::server::Selected;
use crate::server::wire::Wire;
use crate::{Failure, outside};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Scenario {
    #[serde(serialize_with = "name_of")]
    pub(crate) wire: Wire,
    /// Whether the server honours shard selectors.
    pub(crate) filters: bool,
    pub(crate) replicas: u32,
    pub(crate) round: u32,
    /// Updates in the storm after the sync.
    pub(crate) updates: usize,
}

fn name_of<S: Serializer>(wire: &Wire, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(wire.name())
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { wire, filters, replicas, round, .. } = self;
        let server = if *filters { "the server filters" } else { "the server does not filter" };
        write!(f, "round {}: {}, {server}, replicas: {replicas}", round + 1, wire.name())
    }
}

/// Figures of a replica, as `evenkeel bench informer --part` prints them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Replica {
    pub(crate) part: String,
    pub(crate) objects: usize,
    pub(crate) sync_cpu_s: f64,
    pub(crate) sync_wall_s: f64,
    pub(crate) rss_peak_kb: u64,
    pub(crate) rss_steady_kb: u64,
    /// The part of the steady memory that is pages of the executable, read from the outside.
    #[serde(default)]
    pub(crate) rss_file_kb: u64,
    /// Objects of the list that were received and dropped.
    pub(crate) out_of_range: u64,
    pub(crate) updates: u64,
    pub(crate) updates_cpu_s: f64,
    /// Updates that were received and dropped.
    pub(crate) out_of_range_updates: u64,
    /// Resident memory after the storm.
    pub(crate) updated_rss_kb: u64,
}

/// Figures of all replicas of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    #[serde(flatten)]
    pub(crate) scenario: Scenario,
    /// Bytes that the server sent until all replicas had synced, and in the storm.
    pub(crate) sync_bytes: u64,
    pub(crate) storm_bytes: u64,
    /// Processor time of the server.
    pub(crate) server_cpu_s: f64,
    pub(crate) each: Vec<Replica>,
}

/// A replica that runs.
struct Running {
    process: Process,
    output: Receiver<String>,
    errors: Receiver<String>,
    messages: Vec<String>,
}

/// Runs replicas until all have received their updates. All are killed if one fails or the time is up.
pub(crate) fn run(program: &Path, server: &LoadServer, scenario: Scenario) -> Result<Outcome, Failure> {
    let Scenario { wire, filters, replicas, updates, .. } = scenario;
    server.ask::<Value>("POST", &format!("/shards?filter={filters}"))?;
    let parts = (0..replicas).map(|index| selected(server, index, scenario)).collect::<Result<Vec<_>, _>>()?;
    if parts.iter().any(|part| part.updates == 0) {
        // It would end after its sync, before it is measured from the outside.
        return Err("a replica has no update: more updates or fewer replicas are needed".into());
    }
    let objects: usize = parts.iter().map(|part| part.objects).sum();
    // Many times what any of them needs, plus a fixed part.
    let work = (objects + updates) as u32 * if filters { 1 } else { replicas };
    let until = Instant::now() + Duration::from_secs(120) + Duration::from_micros(400) * work;

    wait_until(until, || Ok(server.watches()?.waiting == 0), "watches of an earlier run do not end")?;
    let (sent, cpu) = (server.ask::<u64>("GET", "/sent")?, server.cpu()?);
    let start = |(part, index): (&Selected, u32)| Running::start(program, server, wire, *part, (index, replicas));
    let mut running = parts.iter().zip(0..).map(start).collect::<Result<Vec<_>, _>>()?;
    wait_until(until, || all(&mut running, |replica| replica.has_said("synced ")), "a replica does not sync")?;
    let synced = server.ask::<u64>("GET", "/sent")?;
    let file_of = |replica: &Running| outside::memory(replica.process.0.id(), "RssFile");
    let files = running.iter().map(file_of).collect::<Result<Vec<u64>, _>>()?;
    wait_until(until, || Ok(server.watches()?.waiting == replicas as usize), "a replica does not watch")?;
    server.ask::<Value>("POST", &format!("/storm?updates={updates}"))?;
    wait_until(until, || all(&mut running, Running::has_ended), "a replica does not end")?;
    let stormed = server.ask::<u64>("GET", "/sent")?;
    let server_cpu_s = server.cpu()?.saturating_sub(cpu).as_secs_f64();
    let mut each = running.iter().map(Running::figures).collect::<Result<Vec<_>, _>>()?;
    each.iter_mut().zip(files).for_each(|(replica, file)| replica.rss_file_kb = file);
    Ok(Outcome { scenario, sync_bytes: synced - sent, storm_bytes: stormed - synced, server_cpu_s, each })
}

/// Returns how many objects and updates a replica receives that are in its range.
fn selected(server: &LoadServer, index: u32, scenario: Scenario) -> Result<Selected, Failure> {
    let range = ShardRange::FULL.part(index, scenario.replicas).ok_or("there is no such part")?;
    let selector = ShardSelector::new(ShardField::Uid, range).to_string();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("shardSelector", &selector)
        .append_pair("updates", &scenario.updates.to_string())
        .append_pair("wire", scenario.wire.name())
        .finish();
    server.ask("GET", &format!("/selected?{query}"))
}

/// Polls until a condition holds.
fn wait_until(
    until: Instant,
    mut holds: impl FnMut() -> Result<bool, Failure>,
    otherwise: &str,
) -> Result<(), Failure> {
    while !holds()? {
        if Instant::now() > until {
            return Err(otherwise.into());
        }
        wait(&mut || {});
    }
    Ok(())
}

/// Returns whether something holds for all replicas.
fn all(running: &mut [Running], mut holds: impl FnMut(&mut Running) -> Result<bool, Failure>) -> Result<bool, Failure> {
    let mut do_all = true;
    for replica in running {
        do_all &= holds(replica)?;
    }
    Ok(do_all)
}

impl Running {
    fn start(
        program: &Path,
        server: &LoadServer,
        wire: Wire,
        part: Selected,
        (index, replicas): (u32, u32),
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(["bench", "informer", "--end-with-input", "--data", "pods"]);
        command.args(["--server", server.url(), "--wire", wire.name()]);
        command.args(["--part", &format!("{}/{replicas}", index + 1)]);
        command.args(["--objects", &part.objects.to_string(), "--updates", &part.updates.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn()?);
        // Read while it runs: a full pipe would block the program.
        let (output, errors) = (lines(process.0.stdout.take()), lines(process.0.stderr.take()));
        Ok(Running { process, output, errors, messages: Vec::new() })
    }

    /// Returns whether it has printed a message that starts like this.
    fn has_said(&mut self, start: &str) -> Result<bool, Failure> {
        // Before its messages: those of a program that has ended are complete.
        let ended = self.process.0.try_wait()?;
        match ended {
            Some(_) => self.messages.extend(self.errors.iter()),
            None => self.messages.extend(self.errors.try_iter()),
        }
        let has_said = self.messages.iter().any(|message| message.starts_with(start));
        match ended.filter(|_| !has_said) {
            Some(status) => Err(self.failure(&format!("a replica ended early, {status}"))),
            None => Ok(has_said),
        }
    }

    /// Returns whether it has ended well.
    fn has_ended(&mut self) -> Result<bool, Failure> {
        self.messages.extend(self.errors.try_iter());
        match self.process.0.try_wait()? {
            Some(status) if !status.success() => Err(self.failure(&format!("a replica failed, {status}"))),
            ended => Ok(ended.is_some()),
        }
    }

    fn failure(&mut self, what: &str) -> Failure {
        self.messages.extend(self.errors.iter());
        format!("{what}: {}", self.messages.join("; ")).into()
    }

    fn figures(&self) -> Result<Replica, Failure> {
        let printed = self.output.iter().filter_map(|line| serde_json::from_str(&line).ok()).last();
        printed.ok_or_else(|| "a replica printed no figures".into())
    }
}
