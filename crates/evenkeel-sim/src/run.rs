//! One run of a scenario.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, ControllerTiming, Rule, Snapshot, StartError, User};
use evenkeel_base::task::{install, scheduled};
use evenkeel_client::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::coverage::Coverage;
use crate::decisions::{ChoiceSource, Decisions, Stream, Tape};
use crate::executor::{Incarnation, ProcessId, SchedulePolicy};
use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::logs;
use crate::network::{Network, create, revision};
use crate::recording::Recording;
use crate::scenario::{Process, Scenario, Workload};
use crate::state::{ClusterState, difference};
use crate::trace::Trace;
use crate::world::{Cluster, FaultProfile, Replicas, RunningServer, STUCK, SimEnv, World, WritePoints};

/// A run with more steps makes no progress.
const STEP_LIMIT: u64 = 1_000_000;
/// How long after a change the garbage collector runs, about as in a cluster. A process that creates what is collected at once, because
/// it does not know yet that the owner is gone, would be in a loop otherwise.
const COLLECTION: Duration = Duration::from_secs(1);
/// How long processes may take to shut down.
const SHUTDOWN: Duration = Duration::from_secs(60);

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the invariant.
    pub invariant: String,
    /// What is wrong.
    pub message: String,
    /// The virtual time since the start.
    pub at: Duration,
    /// How many times a task had run.
    pub step: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.message)
    }
}

/// What a run is to do.
#[derive(Clone, Debug)]
pub(crate) struct RunPlan<'a> {
    pub(crate) choices: ChoiceSource,
    pub(crate) has_faults: bool,
    pub(crate) points: WritePoints,
    /// The final state of the run without faults.
    pub(crate) expected: Option<&'a BTreeMap<String, Vec<Value>>>,
    /// Faults of the server until faults stop. The user of a request is its process.
    pub(crate) rules: &'a [Rule],
    /// The run is looked at: it keeps the objects after every write.
    pub(crate) is_recorded: bool,
}

impl RunPlan<'_> {
    /// Returns the plan of a run with these choices, and nothing else that is special.
    pub(crate) fn new(choices: ChoiceSource) -> Self {
        RunPlan {
            choices,
            has_faults: false,
            points: WritePoints::default(),
            expected: None,
            rules: &[],
            is_recorded: false,
        }
    }
}

/// The record of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The first broken invariant, if any.
    pub failure: Option<Failure>,
    /// What happened.
    pub trace: Trace,
    /// How often each fault was injected.
    pub faults: BTreeMap<Fault, u64>,
    /// Which phases of clients the faults have met.
    pub coverage: Coverage,
    /// The simulated time.
    pub simulated: Duration,
    /// How many times a task has run.
    pub steps: u64,
    /// The number of requests.
    pub requests: u64,
    pub(crate) tape: Tape,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) recording: Recording,
    pub(crate) has_random_workload: bool,
    pub(crate) state: ClusterState,
    /// The numbers of the writes of each process that are points of a matrix.
    pub(crate) write_points: BTreeMap<ProcessId, Vec<u32>>,
}

/// Runs a scenario once.
#[expect(clippy::expect_used, reason = "a runtime without I/O and threads has nothing that can fail to start")]
pub(crate) fn run(scenario: &Scenario, plan: &RunPlan<'_>) -> Run {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime of one thread");
    runtime.block_on(simulate(scenario, plan))
}

async fn simulate(scenario: &Scenario, plan: &RunPlan<'_>) -> Run {
    let mut decisions = Decisions::new(plan.choices.clone());
    // The generator of the thread, which evenkeel and its users draw jitter from.
    fastrand::seed(u64::from(decisions.uniform(Stream::Random, u32::MAX)));
    let world = Arc::new(World::new(decisions, plan.points));
    world.set_secrets(scenario.secrets.clone());
    if plan.is_recorded {
        world.start_recording();
    }
    let _installed = install(world.executor.clone());
    let _logs = logs::collect(&world);
    let (result, mut finished) = watch::channel(None);
    let director = Director {
        scenario: scenario.clone(),
        world: Arc::clone(&world),
        has_faults: plan.has_faults,
        rules: plan.rules.to_vec(),
    };
    let expected = plan.expected.cloned();
    drop(tokio::spawn(scheduled(async move {
        let state = director.direct(expected).await;
        result.send_replace(Some(state));
    })));
    let done = || finished.borrow().is_some() || world.executor.steps() > STEP_LIMIT;
    world.executor.dispatch(done).await;
    let state = finished.borrow_and_update().clone();
    if state.is_none() {
        world.fail("progress", format!("tasks have run {STEP_LIMIT} times: something never waits"));
    }
    let (simulated, steps) = (world.executor.now(), world.executor.steps());
    let write_points = scenario.process_ids().map(|process| (process, world.take_write_points(process))).collect();
    let recorded = world.finish();
    Run {
        failure: recorded.failure,
        trace: recorded.trace,
        faults: recorded.counts,
        coverage: recorded.coverage,
        simulated,
        steps,
        requests: recorded.requests,
        tape: recorded.tape,
        fingerprint: recorded.fingerprint,
        recording: Recording {
            scenario: Arc::clone(&scenario.name),
            processes: scenario.processes.iter().map(|(name, _)| Arc::clone(name)).collect(),
            ..recorded.recording.unwrap_or_default()
        },
        has_random_workload: recorded.has_random_workload,
        state: state.unwrap_or_default(),
        write_points,
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}

/// Starts and breaks everything in a run.
struct Director {
    scenario: Scenario,
    world: Arc<World>,
    has_faults: bool,
    rules: Vec<Rule>,
}

const HARNESS: Incarnation = Incarnation { process: ProcessId::HARNESS, number: 1 };

impl Director {
    /// Runs the scenario from its first object to its last check. Returns the final state.
    async fn direct(self, expected: Option<BTreeMap<String, Vec<Value>>>) -> ClusterState {
        let (stop, stopped) = watch::channel(false);
        let Some(cluster) = self.set_up().await else { return ClusterState::default() };
        self.draw_profile();
        if let Some(server) = &cluster.server {
            self.rules.iter().for_each(|rule| _ = server.faults().add(rule.clone()));
        }
        cluster.record().await;
        for (process, (name, _)) in self.scenario.process_ids().zip(&self.scenario.processes) {
            self.world.add_process(process, name);
            self.start(process, &cluster, &stopped);
        }
        self.world.set_rough(self.has_faults);
        let stages = async {
            self.rough(&cluster).await;
            self.world.set_rough(false);
            self.world.trace(None, "no more faults");
            if let Some(server) = &cluster.server {
                server.faults().clear();
            }
            self.end_flap(&cluster);
            self.scenario.process_ids().for_each(|process| self.world.executor.set_paused(process, false));
            self.quiet(&cluster, expected.as_ref()).await;
            self.shut_down(&stop).await;
        };
        let mut failed = self.world.failed.subscribe();
        let failure = async { failed.wait_for(|failed| *failed).await.is_ok() };
        tokio::select! {
            biased;
            _ = failure => {}
            () = stages => {}
            () = self.supervise(&cluster, &stopped) => {}
        }
        let state = ClusterState::read(&cluster).await;
        self.world.record(|recording, line| recording.observe(line, &state));
        state
    }

    /// Starts a server, with the content of a backup if there is one.
    async fn start_server(&self, backup: Option<Snapshot>) -> Result<ApiServer, StartError> {
        let start = Instant::now() - self.world.executor.now();
        let random = AtomicU64::new(if backup.is_some() { self.world.executor.steps() << 32 } else { 1 });
        let builder = ApiServer::builder().env(SimEnv { start, random }).in_process_only().bootstrap(false);
        let builder = builder.garbage_collector(ControllerTiming::Delayed(COLLECTION));
        let builder = match (backup, self.scenario.settings.first_revision) {
            // At the revision of the backup.
            (Some(backup), _) => builder.snapshot(backup).first_revision(0),
            (None, Some(revision)) => builder.first_revision(revision),
            (None, None) => builder,
        };
        builder.start().await
    }

    /// Starts the server, with the definitions and first objects of the scenario.
    async fn set_up(&self) -> Option<Cluster> {
        let mut cluster = Cluster {
            world: Arc::clone(&self.world),
            server: None,
            user: None,
            always: Arc::from([]),
            first_revision: 0,
        };
        if !self.scenario.has_server {
            if !self.scenario.objects.is_empty() || !self.scenario.definitions.is_empty() {
                self.world.fail("set-up", "objects and definitions need a server");
                return None;
            }
            return Some(cluster);
        }
        let server = match self.start_server(None).await {
            Ok(server) => server,
            Err(error) => {
                self.world.fail("set-up", error.to_string());
                return None;
            }
        };
        if let Err(error) = server.install_crds(self.scenario.definitions.iter().cloned()).await {
            self.world.fail("set-up", error.to_string());
            return None;
        }
        cluster.server = Some(Arc::new(RunningServer::new(server)));
        for object in &self.scenario.objects {
            if let Err(message) = create(&cluster, object).await {
                self.world.fail("set-up", message);
                return None;
            }
        }
        cluster.first_revision = revision(&cluster).await;
        cluster.always = self.scenario.always.clone().into();
        Some(cluster)
    }

    fn client(&self, cluster: &Cluster, sender: Incarnation) -> Client {
        Client::from_service(Network { cluster: cluster.clone(), sender })
    }

    /// Draws which faults this run may have, how often, and how tasks are scheduled.
    fn draw_profile(&self) {
        if !self.has_faults {
            return;
        }
        let (profile, policy) = self.world.decide(|decisions| {
            let mut pick = |bound| decisions.uniform(Stream::Profile, bound);
            let enabled = self.scenario.faults.iter().copied().filter(|_| pick(2) == 1).collect();
            let rate =
                |choice: u32| [0, 5_000, 20_000, 60_000, 150_000].get(choice as usize).copied().unwrap_or_default();
            let profile = FaultProfile { enabled, request_rate: rate(pick(5)), late_rate: rate(pick(4)) };
            let processes = u32::try_from(self.scenario.processes.len()).unwrap_or_default();
            let policy = match pick(5) {
                0 => SchedulePolicy::Fifo,
                1 => SchedulePolicy::Priorities { change_every: 20 },
                2 => SchedulePolicy::Priorities { change_every: 200 },
                3 => SchedulePolicy::Starve(ProcessId(pick(processes + 1))),
                _ => SchedulePolicy::Random,
            };
            (profile, policy)
        });
        self.world.set_faults(profile);
        self.world.executor.set_policy(policy);
    }

    /// Starts a life of a process.
    fn start(&self, process: ProcessId, cluster: &Cluster, shutdown: &watch::Receiver<bool>) {
        let Some((name, main)) = self.scenario.processes.get(process.0 as usize - 1) else { return };
        let (name, main, world) = (Arc::clone(name), Arc::clone(main), Arc::clone(&self.world));
        let (mut cluster, shutdown) = (cluster.clone(), shutdown.clone());
        if !self.rules.is_empty() {
            cluster.user = Some(User { name: name.to_string(), ..User::default() });
        }
        self.world.executor.start(process, |incarnation| async move {
            let network = Network { cluster, sender: incarnation };
            let client = Client::from_service(network.clone());
            world.trace(Some(incarnation), "starts");
            let (in_life, stopped) = (Arc::clone(&world), shutdown.clone());
            let life = Process { name, incarnation, client, network, world: in_life, shutdown: stopped };
            let ended = main(life).await;
            match &ended {
                Ok(()) => world.trace(Some(incarnation), "ends"),
                Err(error) => world.trace(Some(incarnation), format!("ends: {error}")),
            }
            if !*shutdown.borrow() {
                world.order_crash(process);
            }
        });
    }

    /// Restarts processes that have crashed.
    async fn supervise(&self, cluster: &Cluster, shutdown: &watch::Receiver<bool>) {
        let mut orders = self.world.orders.subscribe();
        orders.mark_changed();
        while orders.changed().await.is_ok() {
            let crashed = self.world.take_crash_orders();
            // Before any crash there is no stuck replica, and waiting for one would delay the first restart.
            let is_stuck = self.world.points.stale.is_some() && !crashed.is_empty();
            for process in crashed {
                let delay = self.world.decide(|decisions| decisions.uniform(Stream::Event, 20));
                sleep(Duration::from_secs(u64::from(1 + delay))).await;
                if self.world.executor.life(process).is_none() {
                    self.start(process, cluster, shutdown);
                }
            }
            if is_stuck {
                sleep(STUCK).await;
                cluster.freeze_replica(None);
                self.world.trace(None, "the replica follows again");
            }
        }
    }

    /// The workload, and what happens to processes and to the server meanwhile.
    async fn rough(&self, cluster: &Cluster) {
        let workload = async {
            let Some(workload) = &self.scenario.workload else { return };
            let handle = Workload { client: self.client(cluster, HARNESS), world: Arc::clone(&self.world) };
            if let Err(error) = workload(handle).await {
                self.world.fail("workload", error.to_string());
            }
        };
        let rough_end = async {
            if self.has_faults {
                let _ = timeout(self.scenario.settings.rough, self.incidents(cluster)).await;
            } else if !self.rules.is_empty() {
                sleep(self.scenario.settings.rough).await;
            }
        };
        tokio::join!(workload, rough_end);
    }

    /// What happens now and then to processes and to the server.
    async fn incidents(&self, cluster: &Cluster) {
        use Fault::{
            BackupRestored, ClockJumps, Compaction, Crash, Partition, Pause, ReplicasFlap, ServerRestarts, StaleReplica,
        };
        let kinds = [
            Compaction,
            ServerRestarts,
            StaleReplica,
            ReplicasFlap,
            ClockJumps,
            Partition,
            Crash,
            Pause,
            BackupRestored,
        ];
        let is_possible = |kind: &Fault| match kind {
            ClockJumps | Crash | Pause => true,
            _ => cluster.server.is_some(),
        };
        let kinds: Vec<Fault> =
            kinds.into_iter().filter(is_possible).filter(|kind| self.world.is_enabled(*kind)).collect();
        let processes = u32::try_from(self.scenario.processes.len()).unwrap_or_default();
        loop {
            let pick = |bound| self.world.decide(|decisions| decisions.uniform(Stream::Event, bound));
            sleep(Duration::from_secs(u64::from(1 + pick(60)))).await;
            let bound = u32::try_from(kinds.len()).unwrap_or_default() + 1;
            let Some(kind) = (pick(bound) as usize).checked_sub(1).and_then(|index| kinds.get(index)) else { continue };
            let process = ProcessId(1 + pick(processes.max(1)));
            let life = self.world.executor.life(process);
            let is_of_process = matches!(kind, ClockJumps | Partition | Crash | Pause);
            self.world.count_incident(*kind, is_of_process.then_some(process));
            match (kind, &cluster.server) {
                (Compaction, Some(server)) => {
                    self.world.trace(None, "the server discards its history");
                    server.faults().compact_now();
                }
                (ServerRestarts, Some(server)) => {
                    self.world.trace(None, "the server restarts");
                    server.faults().reset_history();
                }
                (StaleReplica, Some(_)) => {
                    let stuck = Duration::from_secs(u64::from(1 + pick(60)));
                    let at = revision(cluster).await;
                    self.world.trace(None, format!("the replica is stuck for {stuck:?}"));
                    cluster.freeze_replica(Some(at));
                    sleep(stuck).await;
                    cluster.freeze_replica(None);
                    self.world.trace(None, "the replica follows again");
                }
                (BackupRestored, Some(server)) => {
                    let backup = server.snapshot();
                    sleep(Duration::from_secs(u64::from(1 + pick(60)))).await;
                    self.world.trace(None, "the cluster is restored from a backup");
                    match self.start_server(Some(backup)).await {
                        Ok(restored) => server.replace(restored),
                        Err(error) => self.world.fail("restore", error.to_string()),
                    }
                }
                (ReplicasFlap, Some(_)) => {
                    let (down, both) = (pick(20), pick(60));
                    let is_sticky = pick(2) == 1;
                    self.flap(cluster, is_sticky, seconds(1 + down), seconds(1 + both)).await;
                }
                (ClockJumps, _) => {
                    let by = i64::from(pick(172_800)) - 86_400;
                    self.world.trace(life, format!("its clock jumps by {by} s"));
                    self.world.executor.jump_clock(process, by.saturating_mul(1_000));
                }
                (Partition, _) => {
                    let milliseconds = |bound| Duration::from_millis(u64::from(1 + pick(bound)));
                    let (late, cut) = (milliseconds(15_000), milliseconds(60_000));
                    let what = format!("has late responses for {late:.1?}, and is then cut off for {cut:.1?}");
                    self.world.trace(life, what);
                    self.world.cut_off(process, late, cut);
                    sleep(late + cut).await;
                    self.world.trace(life, "reaches the server again");
                }
                (Crash, _) if life.is_some() => {
                    self.world.trace(life, "crashes");
                    self.world.order_crash(process);
                }
                (Pause, _) => {
                    let paused = Duration::from_millis(u64::from(1 + pick(60_000)));
                    self.world.trace(life, format!("is paused for {paused:.1?}"));
                    self.world.executor.set_paused(process, true);
                    sleep(paused).await;
                    self.world.executor.set_paused(process, false);
                    self.world.trace(life, "continues");
                }
                _ => {}
            }
        }
    }

    /// Of two servers, one is down for a while and comes back without the history from before. The other one is stuck, and goes on
    /// answering requests.
    async fn flap(&self, cluster: &Cluster, is_sticky: bool, down: Duration, both: Duration) {
        let stuck_at = revision(cluster).await;
        let replicas = |history_from| Some(Replicas { stuck_at, history_from, is_sticky });
        self.world.trace(None, format!("a server is down for {down:?}, and the other one is stuck"));
        self.world.set_replicas(replicas(None));
        cluster.freeze_replica(Some(stuck_at));
        cluster.reset_history();
        sleep(down).await;
        self.world.trace(None, format!("both servers answer for {both:?}"));
        self.world.set_replicas(replicas(Some(revision(cluster).await)));
        sleep(both).await;
        self.end_flap(cluster);
        self.world.trace(None, "the replica follows again");
    }

    fn end_flap(&self, cluster: &Cluster) {
        self.world.set_replicas(None);
        cluster.freeze_replica(None);
    }

    /// Waits until the cluster has settled, and checks it.
    async fn quiet(&self, cluster: &Cluster, expected: Option<&BTreeMap<String, Vec<Value>>>) {
        let settle = self.scenario.settings.settle;
        sleep(settle).await;
        let settled_at = self.world.last_fault() + settle;
        sleep(settled_at.saturating_sub(self.world.executor.now())).await;
        let state = ClusterState::read(cluster).await;
        for (name, check) in &self.scenario.finally {
            if let Err(message) = check(&state) {
                self.world.fail(name, message);
            }
        }
        if let Some(message) = expected.and_then(|expected| difference(expected, &state.comparable())) {
            self.world.fail("same end as without faults", message);
        }
        self.world.expect_no_writes();
        sleep(self.scenario.settings.stable).await;
        let unrest = self.world.unrest();
        if !unrest.is_empty() {
            self.world.fail("stable", unrest.join("; "));
        }
    }

    /// Asks all processes to shut down, and checks that nothing of them is left.
    async fn shut_down(&self, stop: &watch::Sender<bool>) {
        stop.send_replace(true);
        let left = |process: &ProcessId| self.world.executor.task_count(*process) > 0;
        let end = Instant::now() + SHUTDOWN;
        while self.scenario.process_ids().any(|process| left(&process)) && Instant::now() < end {
            sleep(Duration::from_secs(1)).await;
        }
        for (process, (name, _)) in self.scenario.process_ids().zip(&self.scenario.processes) {
            let tasks = self.world.executor.task_count(process);
            if tasks > 0 {
                self.world.fail("stop means stop", format!("{name} has {tasks} tasks a minute after its shutdown"));
            }
        }
    }
}
