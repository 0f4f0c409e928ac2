//! [`Manager`]: starts and stops the parts of a program in order.
//!
//! ```text
//!  start:  servers ─► informers ─► always ─► standby controllers ─► election ─► elected
//!  stop:   always and standby ─► elected ─► informers ─► servers ─► release of the lease
//! ```

mod added;
mod election;
mod error;
mod running;
mod signals;
mod stop_signal;
mod task_group;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use evenkeel_cache::{InformerFactory, RunningInformers};
use evenkeel_client::Client;
use evenkeel_core::Obj;
use tokio::sync::mpsc;

pub use self::added::AddedController;
pub use self::election::{Election, Term};
pub use self::error::{BoxError, ManagerError};
pub use self::signals::shutdown_signal;
pub use self::stop_signal::StopSignal;

use self::running::RunningManager;
use self::task_group::{ManagedTask, TaskFuture};
use crate::controller::{Context, Controller, ControllerError, Next, ReconcileError};
use crate::health::Diagnostics;
use crate::inspect::Inspector;

/// Starts a controller as standby.
type MakeStandby =
    Box<dyn FnOnce(&InformerFactory, &DiagnosticTargets) -> Result<StandbyTasks, ControllerError> + Send>;

/// The default targets of the controllers' diagnostics.
#[derive(Default)]
struct DiagnosticTargets {
    diagnostics: Option<Diagnostics>,
    inspector: Option<Inspector>,
}

/// The tasks of a standby controller.
struct StandbyTasks {
    /// Fails if the caches of the controller do not sync, so that a standby that cannot take over does not look like one that can.
    readiness: ManagedTask,
    /// Runs the workers.
    lead: ManagedTask,
    /// Handle of the informers that the controller started for others. The manager stops them after all controllers.
    running: RunningInformers,
    /// The name of the controller and the factory of its informers.
    informers: (String, InformerFactory),
    /// Whether the workers run in every replica.
    is_sharded: bool,
}

/// Runs the parts of a program, controllers, servers and other tasks, over one client and one set of informers. controller-runtime's
/// `Manager`.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Controller, Manager, Next};
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
///
/// Manager::new(&client)
///     .controller(Controller::<Pod>::new(&client), |pod, _| async move {
///         println!("{}", pod.key());
///         Ok(Next::done())
///     })
///     .controller(Controller::<ConfigMap>::new(&client), |config, _| async move {
///         println!("{}", config.key());
///         Ok(Next::done())
///     })
///     .run(shutdown_signal()?)
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - Start order: [servers](Self::server); informers, until they have synced; [`always`](Self::always) tasks; controllers as
///   standby, which fill caches and queues; the [election](Self::election); and when this process becomes leader, or at once
///   without an election, [`elected`](Self::elected) tasks and the workers of the controllers.
/// - Stop order: `always` tasks and standby controllers; elected tasks; informers, those of controllers with the last controller that
///   uses them; servers; then the lease is released, so that no other process leads while a task of this one runs.
/// - All tasks together have one [grace period](Self::grace). Tasks that exceed it are dropped, and the error names them.
/// - A task that fails or panics stops everything, and the error names it. A task that returns `Ok` has ended.
/// - A standby controller whose caches do not sync in time fails, before the election relies on it.
/// - If leadership is lost, the elected tasks are dropped at once, and [`run`](Self::run) returns an error.
/// - Elected tasks never start in a process that never leads.
///
/// # Lifetime
/// [`run`](Self::run) is a future. When `shutdown` resolves, the manager drains in the order above, within the grace period. Dropping
/// the future stops everything at once. Nothing else stops a manager, and nothing of it outlives the future.
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    client: Client,
    informers: InformerFactory,
    servers: Vec<ManagedTask>,
    always: Vec<ManagedTask>,
    elected: Vec<ManagedTask>,
    controllers: Vec<MakeStandby>,
    election: Option<Box<dyn Election>>,
    targets: DiagnosticTargets,
    grace: Option<Duration>,
    sync_timeout: Duration,
    late: (mpsc::UnboundedSender<LateTask>, mpsc::UnboundedReceiver<LateTask>),
}

/// A task or a controller that is added while the manager runs.
enum LateTask {
    Always(ManagedTask),
    Elected(ManagedTask),
    Controller(MakeStandby),
}

/// Adds tasks and controllers to a running manager. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    late: mpsc::UnboundedSender<LateTask>,
}

impl Manager {
    /// Returns a manager with informers of all namespaces.
    pub fn new(client: &Client) -> Self {
        Self::with_informers(client, InformerFactory::builder(client))
    }

    /// Returns a manager with configured informers: a factory, or the builder of one.
    pub fn with_informers(client: &Client, informers: impl Into<InformerFactory>) -> Self {
        Manager {
            client: client.clone(),
            informers: informers.into(),
            servers: Vec::new(),
            always: Vec::new(),
            elected: Vec::new(),
            controllers: Vec::new(),
            election: None,
            targets: DiagnosticTargets::default(),
            grace: Some(Duration::from_secs(30)),
            sync_timeout: Duration::from_secs(120),
            late: mpsc::unbounded_channel(),
        }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the shared informers. Informers that are requested before [`run`](Self::run) have synced before any task but servers
    /// starts.
    pub fn informers(&self) -> &InformerFactory {
        &self.informers
    }

    /// Adds a task that starts first and stops last: health checks, metrics, webhooks. Of several servers, the one that was added
    /// last stops first: add health checks before webhooks, and they are answered until the last review is.
    pub fn server<F, Fut, E>(mut self, name: impl Into<String>, start: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.servers.push(task(name, start));
        self
    }

    /// Adds a task that runs whether this process leads or not.
    pub fn always<F, Fut, E>(mut self, name: impl Into<String>, start: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.always.push(task(name, start));
        self
    }

    /// Adds a task that runs only while this process leads.
    pub fn elected<F, Fut, E>(mut self, name: impl Into<String>, start: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.elected.push(task(name, start));
        self
    }

    /// Adds a controller. It fills its caches and its queue as standby, and reconciles while this process leads. A
    /// [sharded](Controller::sharded) one reconciles its part in every replica.
    ///
    /// It uses the informers of the manager, also if it has a namespace, selectors or a resync period: there is one informer for each
    /// kind, namespace and selector. A controller with informers of [another factory](Controller::informers) that cache the same
    /// objects is an error of [`run`](Self::run).
    pub fn controller<K, F, Fut>(mut self, controller: Controller<K>, reconcile: F) -> Self
    where
        K: 'static,
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        self.controllers.push(Box::new(move |informers, targets| {
            let is_sharded = controller.is_sharded();
            let mut standby = prepared(controller, informers, targets).standby()?;
            let running = standby.take_running();
            let (name, ready) = (standby.name().to_owned(), standby.readiness());
            let informers = (name.clone(), standby.informers().clone());
            let readiness = task(name.clone(), |stop: StopSignal| async move {
                tokio::select! {
                    biased;
                    () = stop.requested() => Ok(()),
                    ready = ready => ready,
                }
            });
            let lead = task(name, move |stop: StopSignal| standby.lead(stop.requested(), reconcile));
            Ok(StandbyTasks { readiness, lead, running, informers, is_sharded })
        }));
        self
    }

    /// Sets the diagnostics of all controllers that have none, also of standbys: see [`Controller::diagnostics`].
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.targets.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Sets the inspector of all controllers that have none, also of standbys: see [`Controller::inspector`]. Its page must be
    /// [served](Inspector::serve) separately.
    pub fn inspector(mut self, inspector: &Inspector) -> Self {
        self.targets.inspector = Some(inspector.clone());
        self
    }

    /// Sets the election, such as a [`LeaderElector`](crate::LeaderElector). Default: this process leads.
    pub fn election(mut self, election: impl Election) -> Self {
        self.election = Some(Box::new(election));
        self
    }

    /// Sets the grace period of the whole shutdown. Default: 30 seconds. `None` waits without a limit; zero waits for nothing.
    pub fn grace(mut self, grace: impl Into<Option<Duration>>) -> Self {
        self.grace = grace.into();
        self
    }

    /// Sets the time that informers have to sync. Default: two minutes.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_timeout = limit;
        self
    }

    /// Returns a handle that adds tasks and controllers while the manager runs.
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle { late: self.late.0.clone() }
    }

    /// Runs everything until `shutdown` resolves, such as [`shutdown_signal`], or a task fails. Dropping the future stops everything
    /// at once.
    ///
    /// # Errors
    /// See [`ManagerError`]. A shutdown is no error, whenever it happens.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn run(self, shutdown: impl Future + Send) -> Result<(), ManagerError> {
        let (mut running, plan) = RunningManager::new(self);
        let outcome = tokio::select! {
            biased;
            _ = shutdown => Ok(()),
            error = running.run(plan) => Err(error),
        };
        running.shut_down(outcome).await
    }
}

impl ManagerHandle {
    /// Adds a task that runs whether this process leads or not. It starts at once, or with the other `always` tasks if they have not
    /// started. A manager that shuts down starts nothing.
    pub fn always<F, Fut, E>(&self, name: impl Into<String>, start: F)
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let _ = self.late.send(LateTask::Always(task(name, start)));
    }

    /// Adds a task that runs only while this process leads. It starts at once if it does.
    pub fn elected<F, Fut, E>(&self, name: impl Into<String>, start: F)
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let _ = self.late.send(LateTask::Elected(task(name, start)));
    }

    /// Adds a controller. It fills its caches and its queue at once, and reconciles at once if this process leads, or when it does.
    /// It uses the informers of the manager: see [`Manager::controller`].
    ///
    /// [`AddedController::stop`] stops it alone. A manager that shuts down stops it like the others, and starts nothing.
    ///
    /// A controller that cannot start, or that fails, stops the manager, as every other task does.
    pub fn controller<K, F, Fut>(&self, controller: Controller<K>, reconcile: F) -> AddedController
    where
        K: 'static,
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let (handle, make) = added::added(controller, reconcile);
        let _ = self.late.send(LateTask::Controller(make));
        handle
    }
}

/// Returns the controller with the informers and diagnostics of the manager, as far as it has none.
fn prepared<K: 'static>(
    controller: Controller<K>,
    informers: &InformerFactory,
    targets: &DiagnosticTargets,
) -> Controller<K> {
    controller
        .default_informers(informers)
        .default_diagnostics(targets.diagnostics.as_ref())
        .default_inspector(targets.inspector.as_ref())
}

fn task<F, Fut, E>(name: impl Into<String>, start: F) -> ManagedTask
where
    F: FnOnce(StopSignal) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    let start = |stop| -> TaskFuture { Box::pin(async move { start(stop).await.map_err(Into::into) }) };
    ManagedTask { name: name.into(), start: Box::new(start), cancelled: None }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |tasks: &[ManagedTask]| tasks.iter().map(|task| task.name.clone()).collect::<Vec<_>>();
        f.debug_struct("Manager")
            .field("servers", &names(&self.servers))
            .field("always", &names(&self.always))
            .field("elected", &names(&self.elected))
            .field("controllers", &self.controllers.len())
            .field("has_election", &self.election.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").field("is_running", &!self.late.is_closed()).finish()
    }
}
