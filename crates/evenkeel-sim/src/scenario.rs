//! [`Scenario`]: the processes, objects and invariants of a simulation.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{Client, ClientBuilder, Config};
use serde_json::Value;
use tokio::sync::watch;

use crate::decisions::Stream;
use crate::executor::{Incarnation, ProcessId};
use crate::fault::Fault;
use crate::network::Network;
use crate::state::ClusterState;
use crate::world::World;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Main = Arc<dyn Fn(Process) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;
type Story = Arc<dyn Fn(Workload) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;
pub(crate) type Check = Arc<dyn Fn(&ClusterState) -> Result<(), String> + Send + Sync>;

/// The processes, the first objects, the workload and the invariants of a simulation.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use evenkeel::prelude::*;
/// use evenkeel_sim::{Process, Scenario, Workload};
/// use serde_json::json;
///
/// # async fn reconcile(map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> { Ok(Next::done()) }
/// let scenario = Scenario::new("secret-keeper")
///     .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blue", "namespace": "default"}}))
///     .process("controller", |process: Process| async move {
///         let controller = Controller::<ConfigMap>::new(process.client()).owns::<Secret>();
///         Ok(controller.run(process.shutdown(), reconcile).await?)
///     })
///     .workload(|workload: Workload| async move {
///         workload.pause().await;
///         workload.client().core_v1().config_maps("default").delete("blue").await?;
///         Ok(())
///     });
/// # drop(scenario);
/// ```
///
/// # Guarantees
///
/// - A run depends on its seed alone, if the code of its processes does: see the [crate documentation](crate) for what is not
///   deterministic.
/// - Processes share nothing but the API server. A crash drops all tasks of a process that evenkeel has started.
/// - Faults stop before invariants about the end are checked.
#[derive(Clone)]
pub struct Scenario {
    pub(crate) name: Arc<str>,
    pub(crate) definitions: Vec<Value>,
    pub(crate) objects: Vec<Value>,
    pub(crate) processes: Vec<(Arc<str>, Main)>,
    pub(crate) workload: Option<Story>,
    /// Checked after every write.
    pub(crate) always: Vec<(Arc<str>, Check)>,
    /// Checked at the end.
    pub(crate) finally: Vec<(Arc<str>, Check)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) has_server: bool,
    pub(crate) secrets: Vec<Arc<str>>,
    pub(crate) settings: Settings,
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long faults are injected.
    pub(crate) rough: Duration,
    /// How long the cluster may take to settle after the last fault.
    pub(crate) settle: Duration,
    /// How long nothing may be written then.
    pub(crate) stable: Duration,
    /// The final state must be that of the run without faults.
    pub(crate) is_compared: bool,
    /// The revision at which the server starts.
    pub(crate) first_revision: Option<u64>,
}

impl Scenario {
    /// Creates a scenario without processes. The name is part of replay lines.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Scenario {
            name: name.into(),
            definitions: Vec::new(),
            objects: Vec::new(),
            processes: Vec::new(),
            workload: None,
            always: Vec::new(),
            finally: Vec::new(),
            faults: Fault::ALL.to_vec(),
            has_server: true,
            secrets: Vec::new(),
            settings: Settings {
                rough: Duration::from_secs(5 * 60),
                settle: Duration::from_secs(15 * 60),
                stable: Duration::from_secs(10 * 60),
                is_compared: true,
                first_revision: None,
            },
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a CustomResourceDefinition as JSON.
    #[must_use]
    pub fn definition(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Adds an object that exists before the processes start, as JSON with `apiVersion` and `kind`.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Adds a process. Its function is called again after a crash, and if it returns before the [shutdown](Process::shutdown).
    #[must_use]
    pub fn process<F>(mut self, name: impl Into<Arc<str>>, main: impl Fn(Process) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.processes.push((name.into(), Arc::new(move |process| Box::pin(main(process)))));
        self
    }

    /// Sets what happens in the cluster beside the processes. Its requests have no faults.
    #[must_use]
    pub fn workload<F>(mut self, workload: impl Fn(Workload) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.workload = Some(Arc::new(move |handle| Box::pin(workload(handle))));
        self
    }

    /// Adds an invariant that holds after every write.
    #[must_use]
    pub fn always(
        mut self,
        name: impl Into<Arc<str>>,
        check: impl Fn(&ClusterState) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.always.push((name.into(), Arc::new(check)));
        self
    }

    /// Adds an invariant that holds when faults have stopped and the cluster has settled.
    #[must_use]
    pub fn finally(
        mut self,
        name: impl Into<Arc<str>>,
        check: impl Fn(&ClusterState) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.finally.push((name.into(), Arc::new(check)));
        self
    }

    /// Adds a text that nothing may show: neither the timeline, with [notes](Process::note) and the errors of processes, nor a log
    /// line or a span of any level. The name of the invariant is `no secret leaves`.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Arc<str>>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Sets which faults may occur. Default: [all](Fault::ALL). Each run has a random selection of them.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Leaves the API server out, so that a run takes a fraction of the time. Requests are refused, as by a server that does not run,
    /// and objects and definitions cannot be set up.
    #[must_use]
    pub fn without_server(mut self) -> Self {
        self.has_server = false;
        self
    }

    /// Sets how long faults are injected, in virtual time. Default: five minutes.
    #[must_use]
    pub fn rough_for(mut self, time: Duration) -> Self {
        self.settings.rough = time;
        self
    }

    /// Sets how long the cluster may take to settle after the last fault, in virtual time. Default: 15 minutes, which is more than a
    /// watch lasts.
    #[must_use]
    pub fn settle_within(mut self, time: Duration) -> Self {
        self.settings.settle = time;
        self
    }

    /// Sets how long nothing may be written after that, in virtual time. Default: ten minutes. Leases and Events are not counted, nor writes that
    /// change nothing, such as the same apply again.
    #[must_use]
    pub fn stable_for(mut self, time: Duration) -> Self {
        self.settings.stable = time;
        self
    }

    /// Sets whether the final state must be that of the same run without faults. Default: true.
    #[must_use]
    pub fn compare_final_state(mut self, compare: bool) -> Self {
        self.settings.is_compared = compare;
        self
    }

    /// Sets the revision at which the server starts. Default: a number with as many digits as those of real servers, so that no run
    /// counts from 99 to 100.
    #[must_use]
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.settings.first_revision = Some(revision);
        self
    }

    pub(crate) fn process_ids(&self) -> impl Iterator<Item = ProcessId> + use<> {
        (1..=u32::try_from(self.processes.len()).unwrap_or(u32::MAX)).map(ProcessId)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes: Vec<_> = self.processes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Scenario").field("name", &self.name).field("processes", &processes).finish_non_exhaustive()
    }
}

/// One life of a process.
#[derive(Clone, Debug)]
pub struct Process {
    pub(crate) name: Arc<str>,
    pub(crate) incarnation: Incarnation,
    pub(crate) client: Client,
    pub(crate) network: Network,
    pub(crate) world: Arc<World>,
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl Process {
    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns which life of the process this is: 1, and one more after each crash.
    pub fn life(&self) -> u32 {
        self.incarnation.number
    }

    /// Returns the client of this life. Its requests take time and fail as the run decides.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a builder for a client of this life with another configuration, or with layers. Its requests are on the same network
    /// as those of [`client`](Self::client).
    pub fn client_builder(&self, config: Config) -> ClientBuilder {
        ClientBuilder::service(config, self.network.clone())
    }

    /// Completes at the end of the run: the process is to shut down.
    pub fn shutdown(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut shutdown = self.shutdown.clone();
        async move {
            if shutdown.wait_for(|shutdown| *shutdown).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Adds a line to the timeline of the run.
    pub fn note(&self, what: impl Into<String>) {
        self.world.trace(Some(self.incarnation), what);
    }

    /// Enters a place where only one process may be at a time, such as the work of a leader. The run fails if another one is there and
    /// is not paused. `place` is the name of the invariant.
    pub fn alone(&self, place: impl Into<Arc<str>>) -> Alone {
        let alone = Alone { place: place.into(), incarnation: self.incarnation, world: Arc::clone(&self.world) };
        self.world.enter_alone(&alone.place, alone.incarnation);
        alone
    }

    /// Returns a number below `bound`: what the process does at random. 0 is the plain choice, and runs without faults make it.
    pub fn choose(&self, bound: u32) -> u32 {
        self.world.decide(|decisions| decisions.uniform(Stream::Random, bound))
    }

    /// Panics now and then, if the run has this fault: [`Fault::Panics`]. A handler or a reconciler calls it where its code might panic.
    /// Prints nothing.
    pub fn may_panic(&self) {
        if self.world.draw_panic() {
            self.world.count_incident(Fault::Panics, Some(self.incarnation.process));
            self.world.trace(Some(self.incarnation), "panics");
            // Does not call the panic hook, which would print thousands of messages.
            resume_unwind(Box::new("an injected panic"));
        }
    }

    /// Returns the number of tasks of the process that have not ended, this one included. Tasks of lives before this one have.
    pub fn task_count(&self) -> usize {
        self.world.executor.task_count(self.incarnation.process)
    }

    /// Fails the run: an invariant of this name is broken.
    pub fn fail(&self, invariant: &str, message: impl Into<String>) {
        self.world.fail(invariant, message);
    }

    /// Returns the record of this type that belongs to the run: what processes note for the checks of a scenario. It is the same in all
    /// processes, outlives their crashes, and is not part of what a controller may rely on.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.world.shared.get()
    }
}

/// A process is where only one may be, until this is dropped: see [`Process::alone`].
#[derive(Debug)]
#[must_use = "dropping it leaves the place"]
pub struct Alone {
    place: Arc<str>,
    incarnation: Incarnation,
    world: Arc<World>,
}

impl Alone {
    /// Checks again that no other process is there, before something is done that two must not do.
    pub fn check(&self) {
        self.world.check_alone(&self.place, self.incarnation);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.world.leave_alone(&self.place, self.incarnation);
    }
}

/// The handle of a workload.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) client: Client,
    pub(crate) world: Arc<World>,
}

impl Workload {
    /// Returns a client without faults.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the record of this type that belongs to the run: see [`Process::shared`].
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.world.shared.get()
    }

    /// Fails the run: an invariant of this name is broken.
    pub fn fail(&self, invariant: &str, message: impl Into<String>) {
        self.world.fail(invariant, message);
    }

    /// Returns a number below `bound`. The run without faults has the same ones.
    pub fn choose(&self, bound: u32) -> u32 {
        self.world.decide(|decisions| decisions.uniform(Stream::Workload, bound))
    }

    /// Waits up to twenty seconds.
    pub async fn pause(&self) {
        let milliseconds = 1 + self.choose(20_000);
        tokio::time::sleep(Duration::from_millis(u64::from(milliseconds))).await;
    }
}
