//! [`World`]: what all parts of one run share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Env, Faults, InProcess, Snapshot, User};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::coverage::{ClientPhase, Coverage};
use crate::decisions::{Decisions, Stream, mix};
use crate::executor::{EPOCH, Executor, Incarnation, ProcessId};
use crate::fault::{Fault, RequestClass, RequestFault};
use crate::fingerprint::Fingerprint;
use crate::network::Subject;
use crate::recording::Recording;
use crate::run::Failure;
use crate::scenario::Check;
use crate::shared::SharedRecords;
use crate::state::ClusterState;
use crate::trace::{Trace, TraceLine};

/// How long a message takes at least.
const LATENCY: Duration = Duration::from_millis(1);
/// The probability of a panic where one is possible, in parts per million.
const PANIC_RATE: u32 = 50_000;
/// A process that writes more often within a minute, heartbeats aside, is in a loop.
const WRITES_PER_MINUTE: u32 = 500;
/// Of heartbeats without another write between them, so many are points of a matrix: those after them find the process as it was.
const HEARTBEAT_POINTS: u32 = 5;

/// A point at which a process crashes in a crash matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrashPoint {
    pub(crate) process: ProcessId,
    /// The write, counted from 1 over all lives of the process.
    pub(crate) write: u32,
    pub(crate) phase: CrashPhase,
}

/// When a process crashes relative to one of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPhase {
    /// The write is not done.
    BeforeCommit,
    /// The write is done, and the process does not see the response.
    BeforeResponse,
    /// The process has the response, and does nothing after it.
    AfterResponse,
}

/// How long a replica is stuck after the restart of a process onto it.
pub(crate) const STUCK: Duration = Duration::from_secs(60);

/// A process that restarts onto a replica that is stuck at an old revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaleRestart {
    pub(crate) process: ProcessId,
    /// The write after whose response the process restarts, counted from 1.
    pub(crate) write: u32,
    /// How many revisions of the run the replica lacks.
    pub(crate) behind: u64,
}

/// How often requests fail in a run, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultProfile {
    pub(crate) enabled: BTreeSet<Fault>,
    /// The probability of a fault of a request, in parts per million.
    pub(crate) request_rate: u32,
    /// The probability that a message is late, in parts per million.
    pub(crate) late_rate: u32,
}

/// The state of the connection between a process and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Whole,
    /// Responses arrive after this time.
    Late(Duration),
    /// Nothing arrives for this time.
    Cut(Duration),
}

/// Two servers, either of which may answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// The revision at which one of them is stuck.
    pub(crate) stuck_at: u64,
    /// The revision at which the history of the other one starts; `None` while it is down.
    pub(crate) history_from: Option<u64>,
    /// The stuck one answers all lists and the other one all watches; otherwise it is a matter of chance.
    pub(crate) is_sticky: bool,
}

/// What happens to processes at their writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WritePoints {
    pub(crate) crash: Option<CrashPoint>,
    pub(crate) stale: Option<StaleRestart>,
}

/// What the parts of a run share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) executor: Arc<Executor>,
    decisions: Arc<Mutex<Decisions>>,
    state: Mutex<WorldState>,
    /// Wakes the harness to crash or restart processes.
    pub(crate) orders: watch::Sender<u64>,
    /// Becomes true with the first broken invariant.
    pub(crate) failed: watch::Sender<bool>,
    pub(crate) points: WritePoints,
    pub(crate) shared: SharedRecords,
}

/// The writes of a process, over all its lives.
#[derive(Debug, Default)]
struct ProcessWrites {
    count: u32,
    /// Those of the last minute with a change, heartbeats aside.
    changes: u32,
    /// The minute of the run in which they were.
    minute: u64,
    /// Heartbeats since the last other write.
    heartbeats: u32,
    /// The numbers of those that are points of a matrix.
    points: Vec<u32>,
}

#[derive(Debug, Default)]
struct WorldState {
    trace: Trace,
    faults: FaultProfile,
    /// Faults are injected.
    is_rough: bool,
    counts: BTreeMap<Fault, u64>,
    coverage: Coverage,
    /// What each process waits for.
    in_flight: BTreeMap<(ProcessId, ClientPhase), u32>,
    failure: Option<Failure>,
    /// Texts that must not appear in anything that the run shows.
    secrets: Vec<Arc<str>>,
    names: BTreeMap<ProcessId, Arc<str>>,
    writes: BTreeMap<ProcessId, ProcessWrites>,
    /// The collections that were written to: their path in the API.
    collections: BTreeSet<String>,
    /// When the fault of a matrix ends, which may be while the cluster settles.
    last_fault: Duration,
    /// Writes while the cluster should be stable, by process.
    counts_writes_as_unrest: bool,
    unrest: Vec<String>,
    crash_orders: Vec<ProcessId>,
    requests: u64,
    /// From when to when processes are cut off from the server. Before that, their responses are late.
    cuts: BTreeMap<ProcessId, (Instant, Instant)>,
    /// The resource versions, by collection, from which on lists are refused as too large.
    too_large: BTreeMap<String, u64>,
    /// Two servers answer requests.
    replicas: Option<Replicas>,
    /// Where the last choice was made that is not plain.
    fingerprint: Fingerprint,
    /// What a recorded run keeps.
    recording: Option<Recording>,
    /// Who is where only one may be.
    alone: Vec<(Arc<str>, Incarnation)>,
}

impl World {
    pub(crate) fn new(decisions: Decisions, points: WritePoints) -> Self {
        let decisions = Arc::new(Mutex::new(decisions));
        let executor = Arc::new(Executor::new(Arc::clone(&decisions)));
        let (orders, failed) = (watch::Sender::new(0), watch::Sender::new(false));
        let shared = SharedRecords::default();
        World { executor, decisions, state: Mutex::default(), orders, failed, points, shared }
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a choice.
    pub(crate) fn decide<T>(&self, choose: impl FnOnce(&mut Decisions) -> T) -> T {
        choose(&mut self.decisions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_faults(&self, faults: FaultProfile) {
        self.lock().faults = faults;
    }

    pub(crate) fn is_enabled(&self, fault: Fault) -> bool {
        self.lock().faults.enabled.contains(&fault)
    }

    pub(crate) fn set_rough(&self, rough: bool) {
        let mut state = self.lock();
        state.is_rough = rough;
        state.cuts.clear();
    }

    pub(crate) fn set_secrets(&self, secrets: Vec<Arc<str>>) {
        self.lock().secrets = secrets;
    }

    pub(crate) fn has_secrets(&self) -> bool {
        !self.lock().secrets.is_empty()
    }

    /// Fails the run if a text has a secret. Returns the text without it.
    pub(crate) fn without_secrets(&self, mut text: String, place: &str) -> String {
        let found: Vec<Arc<str>> =
            self.lock().secrets.iter().filter(|secret| text.contains(&***secret)).cloned().collect();
        if found.is_empty() {
            return text;
        }
        for secret in found {
            text = text.replace(&*secret, "[a secret]");
        }
        self.fail("no secret leaves", format!("{place}: {text}"));
        text
    }

    pub(crate) fn add_process(&self, process: ProcessId, name: &str) {
        self.lock().names.insert(process, name.into());
    }

    /// Adds a line to the timeline.
    pub(crate) fn trace(&self, incarnation: Option<Incarnation>, what: impl Into<String>) {
        let what = self.without_secrets(what.into(), "in the timeline");
        let (at, step, is_marked) = (self.executor.now(), self.executor.steps(), self.decide(Decisions::take_mark));
        let mut state = self.lock();
        if is_marked {
            state.fingerprint = Fingerprint { step, hash: state.trace.hash() };
        }
        let line = state.line(at, step, incarnation, what);
        state.trace.push(line);
    }

    /// Adds a line to the timeline that does not decide whether two runs are equal. It has no secret.
    pub(crate) fn note(&self, incarnation: Incarnation, what: String) {
        let (at, step) = (self.executor.now(), self.executor.steps());
        let mut state = self.lock();
        let line = state.line(at, step, Some(incarnation), what);
        state.trace.note(line);
    }

    /// Keeps what is needed to look at the run step by step.
    pub(crate) fn start_recording(&self) {
        self.lock().recording = Some(Recording::default());
    }

    /// Returns whether the run is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.lock().recording.is_some()
    }

    /// Records a request of a process, and what goes wrong with it.
    pub(crate) fn record_request(&self, process: ProcessId, subject: &Subject, fault: Option<&RequestFault>) {
        let mut state = self.lock();
        let Some(name) = state.names.get(&process).cloned() else { return };
        if let Some(recording) = &mut state.recording {
            recording.requests.add(&name, subject, fault);
        }
    }

    /// Adds to the recording, if there is one, with the number of the latest line.
    pub(crate) fn record(&self, add: impl FnOnce(&mut Recording, usize)) {
        let mut state = self.lock();
        let line = state.trace.lines().len().saturating_sub(1);
        if let Some(recording) = &mut state.recording {
            add(recording, line);
        }
    }

    /// Notes a broken invariant. The first one counts.
    pub(crate) fn fail(&self, invariant: &str, message: impl Into<String>) {
        let (at, steps) = (self.executor.now(), self.executor.steps());
        let message = message.into();
        self.trace(None, format!("invariant broken: {invariant}: {message}"));
        let failure = Failure { invariant: invariant.to_owned(), message, at, step: steps };
        self.lock().failure.get_or_insert(failure);
        self.failed.send_replace(true);
    }

    /// Counts a fault of a request.
    pub(crate) fn count(&self, fault: Fault, phase: ClientPhase) {
        let mut state = self.lock();
        *state.counts.entry(fault).or_default() += 1;
        state.coverage.add(fault, phase);
    }

    /// Counts a fault of a process, or of the server, in each phase that it meets.
    pub(crate) fn count_incident(&self, fault: Fault, process: Option<ProcessId>) {
        let mut state = self.lock();
        *state.counts.entry(fault).or_default() += 1;
        let met = state.in_flight.keys().filter(|(of, _)| process.is_none_or(|process| process == *of));
        let mut phases: BTreeSet<ClientPhase> = met.map(|(_, phase)| *phase).collect();
        if phases.is_empty() {
            phases.insert(ClientPhase::Waiting);
        }
        phases.into_iter().for_each(|phase| state.coverage.add(fault, phase));
    }

    /// Notes that a process waits for a response, or for the next event of a watch.
    pub(crate) fn set_in_flight(&self, process: ProcessId, phase: ClientPhase) {
        *self.lock().in_flight.entry((process, phase)).or_default() += 1;
    }

    /// Notes that it no longer does.
    pub(crate) fn unset_in_flight(&self, process: ProcessId, phase: ClientPhase) {
        let mut state = self.lock();
        if let Some(count) = state.in_flight.get_mut(&(process, phase)) {
            *count = count.saturating_sub(1);
        }
        state.in_flight.retain(|_, count| *count > 0);
    }

    /// Draws whether a request fails, and how.
    pub(crate) fn draw_fault(&self, class: RequestClass) -> Option<Fault> {
        let (candidates, rate): (Vec<Fault>, u32) = {
            let state = self.lock();
            if !state.is_rough {
                return None;
            }
            let enabled = state.faults.enabled.iter().copied();
            (enabled.filter(|fault| fault.is_of_request(class)).collect(), state.faults.request_rate)
        };
        // Watches and relists are few, and most that can go wrong goes wrong with them.
        let is_rare = class.is_watch() || class == RequestClass::List { names_version: true };
        let rate = if is_rare { rate.saturating_mul(4).clamp(100_000, 800_000) } else { rate };
        let bound = u32::try_from(candidates.len()).unwrap_or_default() + 1;
        let choice = self.decide(|decisions| decisions.rarely(Stream::Fault, bound, rate));
        candidates.get((choice as usize).checked_sub(1)?).copied()
    }

    /// Draws whether a handler or a reconciler panics.
    pub(crate) fn draw_panic(&self) -> bool {
        let is_possible = {
            let state = self.lock();
            state.is_rough && state.faults.enabled.contains(&Fault::Panics)
        };
        is_possible && self.decide(|decisions| decisions.rarely(Stream::Fault, 2, PANIC_RATE)) > 0
    }

    /// Holds the responses to a process back for some time, and then cuts it off from the server.
    pub(crate) fn cut_off(&self, process: ProcessId, late: Duration, cut: Duration) {
        let start = Instant::now() + late;
        self.lock().cuts.insert(process, (start, start + cut));
    }

    /// Returns the state of the connection between a process and the server.
    pub(crate) fn link(&self, process: ProcessId) -> Link {
        let now = Instant::now();
        match self.lock().cuts.get(&process) {
            Some((start, _)) if now < *start => Link::Late(*start - now),
            Some((_, end)) if now < *end => Link::Cut(*end - now),
            _ => Link::Whole,
        }
    }

    /// Draws how long a message takes: usually a few milliseconds, rarely seconds.
    pub(crate) fn draw_latency(&self) -> Duration {
        let late_rate = {
            let state = self.lock();
            if !state.is_rough {
                return LATENCY;
            }
            state.faults.late_rate
        };
        let usual = self.decide(|decisions| decisions.uniform(Stream::Latency, 8));
        let late = self.decide(|decisions| decisions.rarely(Stream::Latency, 4_000, late_rate));
        LATENCY + Duration::from_millis(u64::from(usual + late))
    }

    /// Notes a request of a process to a collection. Returns the number of the write, if it is one.
    pub(crate) fn note_request(&self, process: ProcessId, written: Option<&str>) -> Option<u32> {
        let minute = self.executor.now().as_secs() / 60;
        let mut state = self.lock();
        state.requests += 1;
        let is_stable = state.counts_writes_as_unrest;
        let collection = written?;
        state.too_large.remove(collection);
        if !state.collections.contains(collection) {
            state.collections.insert(collection.to_owned());
        }
        if process == ProcessId::HARNESS {
            return None;
        }
        let writes = state.writes.entry(process).or_default();
        writes.count += 1;
        if is_heartbeat(collection) {
            writes.heartbeats += 1;
        } else {
            writes.heartbeats = 0;
            if writes.minute != minute {
                (writes.minute, writes.changes) = (minute, 0);
            }
            writes.changes += 1;
        }
        let number = writes.count;
        if writes.heartbeats <= HEARTBEAT_POINTS && !is_stable {
            writes.points.push(number);
        }
        let is_loop = writes.heartbeats == 0 && writes.changes == WRITES_PER_MINUTE;
        drop(state);
        if is_loop {
            let message =
                format!("{WRITES_PER_MINUTE} writes of one process in a minute, the last one to {collection}");
            self.fail("stable", message);
        }
        Some(number)
    }

    /// Has lists of a collection that name this resource version or a newer one refused, until the next write.
    pub(crate) fn refuse_version(&self, collection: &str, version: u64) {
        self.lock().too_large.insert(collection.to_owned(), version);
    }

    /// Returns whether a list of a collection that names this resource version is refused.
    pub(crate) fn is_too_large(&self, collection: &str, version: u64) -> bool {
        self.lock().too_large.get(collection).is_some_and(|refused| *refused <= version)
    }

    pub(crate) fn set_replicas(&self, replicas: Option<Replicas>) {
        self.lock().replicas = replicas;
    }

    pub(crate) fn replicas(&self) -> Option<Replicas> {
        self.lock().replicas
    }

    /// Notes that the fault of a matrix begins, and when it will end.
    pub(crate) fn note_last_fault(&self, ends_in: Duration) {
        self.lock().last_fault = self.executor.now() + ends_in;
    }

    /// Returns when the fault of a matrix ended or will end. Zero before it, and in other runs.
    pub(crate) fn last_fault(&self) -> Duration {
        self.lock().last_fault
    }

    /// Counts writes of processes from now on: the cluster should be stable.
    pub(crate) fn expect_no_writes(&self) {
        self.lock().counts_writes_as_unrest = true;
    }

    /// Returns whether a write of a process would show that the cluster is not stable.
    pub(crate) fn counts_as_unrest(&self, process: ProcessId, collection: &str) -> bool {
        process != ProcessId::HARNESS && self.lock().counts_writes_as_unrest && !is_heartbeat(collection)
    }

    /// Notes a write while the cluster should be stable.
    pub(crate) fn note_unrest(&self, process: ProcessId, collection: &str) {
        let mut state = self.lock();
        let name = state.names.get(&process).map_or("?", |name| name);
        let line = format!("{name} writes to {collection}");
        if state.unrest.len() < 10 {
            state.unrest.push(line);
        }
    }

    pub(crate) fn unrest(&self) -> Vec<String> {
        self.lock().unrest.clone()
    }

    /// Returns the collections that were written to.
    pub(crate) fn collections(&self) -> BTreeSet<String> {
        self.lock().collections.clone()
    }

    /// Takes the numbers of the writes of a process that are points of a matrix.
    pub(crate) fn take_write_points(&self, process: ProcessId) -> Vec<u32> {
        self.lock().writes.get_mut(&process).map(|writes| std::mem::take(&mut writes.points)).unwrap_or_default()
    }

    /// Notes that a process is where only one may be.
    pub(crate) fn enter_alone(&self, place: &Arc<str>, incarnation: Incarnation) {
        self.lock().alone.push((Arc::clone(place), incarnation));
        self.check_alone(place, incarnation);
    }

    pub(crate) fn leave_alone(&self, place: &Arc<str>, incarnation: Incarnation) {
        self.lock().alone.retain(|entry| *entry != (Arc::clone(place), incarnation));
    }

    /// Fails the run if another process is at the same place. One that is paused does nothing there, so it does not count.
    pub(crate) fn check_alone(&self, place: &Arc<str>, incarnation: Incarnation) {
        let other = {
            let state = self.lock();
            let is_other = |(at, other): &&(Arc<str>, Incarnation)| {
                at == place && other.process != incarnation.process && self.executor.is_running(*other)
            };
            state.alone.iter().find(is_other).map(|(_, other)| (state.name_of(incarnation), state.name_of(*other)))
        };
        if let Some((own, other)) = other {
            self.fail(place, format!("{own} and {other} at the same time"));
        }
    }

    /// Has the harness crash a process and restart it.
    pub(crate) fn order_crash(&self, process: ProcessId) {
        self.lock().crash_orders.push(process);
        self.executor.crash(process);
        self.orders.send_modify(|orders| *orders += 1);
    }

    pub(crate) fn take_crash_orders(&self) -> Vec<ProcessId> {
        std::mem::take(&mut self.lock().crash_orders)
    }

    /// Ends the run: returns what it has recorded.
    pub(crate) fn finish(&self) -> FinishedWorld {
        let step = self.executor.steps();
        let (tape, draws, is_marked) = self
            .decide(|decisions| (decisions.taken().clone(), decisions.count(Stream::Workload), decisions.take_mark()));
        let mut state = self.lock();
        if is_marked {
            state.fingerprint = Fingerprint { step, hash: state.trace.hash() };
        }
        FinishedWorld {
            trace: std::mem::take(&mut state.trace),
            failure: state.failure.take(),
            counts: std::mem::take(&mut state.counts),
            coverage: std::mem::take(&mut state.coverage),
            requests: state.requests,
            tape,
            fingerprint: state.fingerprint,
            recording: state.recording.take(),
            has_random_workload: draws > 0,
        }
    }
}

impl WorldState {
    fn line(&self, at: Duration, step: u64, incarnation: Option<Incarnation>, what: String) -> TraceLine {
        let process = incarnation.map_or_else(|| "cluster".to_owned(), |incarnation| self.name_of(incarnation));
        TraceLine { at, step, process, life: incarnation.map_or(1, |incarnation| incarnation.number), what }
    }

    fn name_of(&self, Incarnation { process, number }: Incarnation) -> String {
        match (self.names.get(&process), number) {
            (None, _) => "workload".to_owned(),
            (Some(name), 1) => name.to_string(),
            (Some(name), life) => format!("{name} (life {life})"),
        }
    }
}

/// What a run has recorded.
pub(crate) struct FinishedWorld {
    pub(crate) trace: Trace,
    pub(crate) failure: Option<Failure>,
    pub(crate) counts: BTreeMap<Fault, u64>,
    pub(crate) coverage: Coverage,
    pub(crate) requests: u64,
    pub(crate) tape: crate::decisions::Tape,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) recording: Option<Recording>,
    pub(crate) has_random_workload: bool,
}

/// Returns whether objects of a collection are written although nothing has changed.
fn is_heartbeat(collection: &str) -> bool {
    collection.ends_with("/leases") || collection.ends_with("/events")
}

/// The time and the randomness of the server: virtual.
#[derive(Debug)]
pub(crate) struct SimEnv {
    pub(crate) start: Instant,
    pub(crate) random: std::sync::atomic::AtomicU64,
}

impl Env for SimEnv {
    fn wall(&self) -> Timestamp {
        let now = SignedDuration::try_from(EPOCH.saturating_add(self.start.elapsed())).unwrap_or_default();
        Timestamp::UNIX_EPOCH.checked_add(now).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> u64 {
        mix(self.random.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

/// The server of a cluster, which may be replaced by one from a backup.
pub(crate) struct RunningServer(Mutex<(ApiServer, InProcess)>);

impl RunningServer {
    pub(crate) fn new(server: ApiServer) -> Self {
        let service = server.service();
        RunningServer(Mutex::new((server, service)))
    }

    fn lock(&self) -> MutexGuard<'_, (ApiServer, InProcess)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn service(&self) -> InProcess {
        self.lock().1.clone()
    }

    pub(crate) fn faults(&self) -> Faults {
        self.lock().0.faults().clone()
    }

    /// Returns the content of the server.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().0.snapshot()
    }

    /// Stops the server and has another one in its place. All watches end.
    pub(crate) fn replace(&self, server: ApiServer) {
        let service = server.service();
        let stopped = std::mem::replace(&mut *self.lock(), (server, service));
        drop(stopped);
    }
}

/// A server, and the world that it is in.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) world: Arc<World>,
    /// `None` in a scenario without a server.
    pub(crate) server: Option<Arc<RunningServer>>,
    /// Whose requests these are, for fault rules that tell processes apart.
    pub(crate) user: Option<User>,
    /// Checked after every write.
    pub(crate) always: Arc<[(Arc<str>, Check)]>,
    /// The revision of the server when the processes start.
    pub(crate) first_revision: u64,
}

impl Cluster {
    /// Returns the service of the server that runs now.
    pub(crate) fn service(&self) -> Option<InProcess> {
        let service = self.server.as_ref()?.service();
        Some(match &self.user {
            Some(user) => service.acting_as(user.clone()),
            None => service,
        })
    }

    /// Has reads that tolerate staleness, and watches, stay at a revision, or follow again.
    pub(crate) fn freeze_replica(&self, revision: Option<u64>) {
        if let Some(server) = &self.server {
            server.faults().freeze_replica(revision);
        }
    }

    /// Starts the history of the server anew, as its restart does.
    pub(crate) fn reset_history(&self) {
        if let Some(server) = &self.server {
            server.faults().reset_history();
        }
    }

    /// Records the objects, if the run is recorded.
    pub(crate) async fn record(&self) {
        if self.world.is_recorded() {
            let state = ClusterState::read(self).await;
            self.world.record(|recording, line| recording.observe(line, &state));
        }
    }

    /// Checks the invariants that always hold, and records what a write has changed.
    pub(crate) async fn check_always(&self) {
        if self.always.is_empty() && !self.world.is_recorded() {
            return;
        }
        let state = ClusterState::read(self).await;
        self.world.record(|recording, line| recording.observe(line, &state));
        for (name, check) in self.always.iter() {
            if let Err(message) = check(&state) {
                self.world.fail(name, message);
            }
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("first_revision", &self.first_revision).finish_non_exhaustive()
    }
}
