//! [`Manager`]: everything that a program runs, begun and ended in order.
//!
//! ```text
//!  begins:  servers ─► informers ─► always ─► warm-up ─► election ─► elected
//!  ends:    always and warm-up ─► elected ─► informers ─► servers ─► the lease is given back
//! ```

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

use evenkeel_cache::InformerFactory;
use evenkeel_cache::factory::InformerFactoryBuilder;
use evenkeel_client::Client;
use evenkeel_core::Obj;
use tokio::sync::mpsc;

pub use self::election::{Election, Term};
pub use self::error::{BoxError, ManagerError};
pub use self::signals::shutdown_signal;
pub use self::stop_signal::StopSignal;

use self::running::RunningManager;
use self::task_group::{ManagedTask, TaskFuture};
use crate::controller::{Context, Controller, ControllerError, Next, ReconcileError};
use crate::health::Diagnostics;
use crate::inspect::Inspector;

type StandbyFactory =
    Box<dyn FnOnce(&InformerFactory, &DiagnosticTargets) -> Result<StandbyTasks, ControllerError> + Send>;

/// Where controllers show that were not told of another place.
#[derive(Default)]
struct DiagnosticTargets {
    diagnostics: Option<Diagnostics>,
    inspector: Option<Inspector>,
}

/// A controller that stands by.
struct StandbyTasks {
    /// Fails if the controller does not get what it needs, so that a standby that could not take over is not taken for one.
    readiness: ManagedTask,
    /// Begins to work.
    lead: ManagedTask,
}

/// Everything that a program runs: controllers, servers, and whatever else, over one client and one set of informers.
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
/// # What holds
/// - Things begin in this order: [servers](Self::server); informers, which are waited for; what is to run
///   [always](Self::always); controllers, as far as filling their caches and queues; then the [election](Self::election); and
///   when this process leads, or at once if there is no election, what is [elected](Self::elected), controllers included.
/// - They end in this order: what runs always, and controllers that stand by; what was elected; informers; servers; and then
///   the lease is given back, so that nobody leads while something of this process still does.
/// - All of it together has some [grace](Self::grace) to end. What takes longer is dropped, and the error says what it was.
/// - If a task fails or panics, everything ends, and the error says why. A task that ends well has just ended.
/// - A controller that stands by, and does not get what it needs in time, is such a failure: nobody relies on it in vain.
/// - If leadership is lost, what was elected is dropped at once, and [`run`](Self::run) fails.
/// - If this process never leads, nothing that is to be elected ever begins.
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    client: Client,
    informers: InformerFactory,
    servers: Vec<ManagedTask>,
    always: Vec<ManagedTask>,
    elected: Vec<ManagedTask>,
    controllers: Vec<StandbyFactory>,
    election: Option<Box<dyn Election>>,
    shown: DiagnosticTargets,
    grace: Option<Duration>,
    sync_timeout: Duration,
    later: (mpsc::UnboundedSender<LateTask>, mpsc::UnboundedReceiver<LateTask>),
}

/// Something that is added while the manager runs.
enum LateTask {
    Always(ManagedTask),
    Elected(ManagedTask),
}

/// Adds to a manager that runs. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    later: mpsc::UnboundedSender<LateTask>,
}

impl Manager {
    /// A manager of what runs over this client, with informers of all that there is.
    pub fn new(client: &Client) -> Self {
        Self::with_informers(client, InformerFactory::builder(client))
    }

    /// A manager with informers of which something is to be said.
    pub fn with_informers(client: &Client, informers: InformerFactoryBuilder) -> Self {
        Manager {
            client: client.clone(),
            informers: informers.build(),
            servers: Vec::new(),
            always: Vec::new(),
            elected: Vec::new(),
            controllers: Vec::new(),
            election: None,
            shown: DiagnosticTargets::default(),
            grace: Some(Duration::from_secs(30)),
            sync_timeout: Duration::from_secs(120),
            later: mpsc::unbounded_channel(),
        }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The informers that everything shares. Those that are asked for before the manager runs have synced before anything but
    /// servers begins.
    pub fn informers(&self) -> &InformerFactory {
        &self.informers
    }

    /// Something that is there before all else, and when all else has ended: health checks, metrics.
    pub fn server<F, Fut, E>(mut self, name: impl Into<String>, begin: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.servers.push(task(name, begin));
        self
    }

    /// Something that runs whether this process leads or not.
    pub fn always<F, Fut, E>(mut self, name: impl Into<String>, begin: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.always.push(task(name, begin));
        self
    }

    /// Something that runs only while this process leads.
    pub fn elected<F, Fut, E>(mut self, name: impl Into<String>, begin: F) -> Self
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.elected.push(task(name, begin));
        self
    }

    /// A controller. It fills its caches and its queue while it stands by, and works while this process leads.
    ///
    /// It uses the informers of the manager, unless it has others or was told which objects it is about.
    pub fn controller<K, F, Fut>(mut self, controller: Controller<K>, reconcile: F) -> Self
    where
        K: 'static,
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        self.controllers.push(Box::new(move |informers, shown| {
            let controller = controller
                .default_informers(informers)
                .default_diagnostics(shown.diagnostics.as_ref())
                .default_inspector(shown.inspector.as_ref());
            let standby = controller.standby()?;
            let (name, ready) = (standby.name().to_owned(), standby.readiness());
            let readiness = task(name.clone(), |stop: StopSignal| async move {
                tokio::select! {
                    biased;
                    () = stop.requested() => Ok(()),
                    ready = ready => ready,
                }
            });
            Ok(StandbyTasks {
                readiness,
                lead: task(name, move |stop: StopSignal| standby.lead(stop.requested(), reconcile)),
            })
        }));
        self
    }

    /// Has all controllers show in these diagnostics, also while they stand by, unless they were told of others: see
    /// [`Controller::diagnostics`].
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.shown.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Has all controllers show in this inspector, also while they stand by, unless they were told of another: see
    /// [`Controller::inspector`]. Whoever wants to see its page [serves](Inspector::serve) it.
    pub fn inspector(mut self, inspector: &Inspector) -> Self {
        self.shown.inspector = Some(inspector.clone());
        self
    }

    /// Who decides whether this process leads, such as a [`LeaderElector`](crate::LeaderElector). Without this, it does.
    pub fn election(mut self, election: impl Election) -> Self {
        self.election = Some(Box::new(election));
        self
    }

    /// How long all of it together has to end: 30 seconds, unless told otherwise. With `None`, as long as it takes; with no
    /// time at all, nothing is waited for.
    pub fn grace(mut self, grace: impl Into<Option<Duration>>) -> Self {
        self.grace = grace.into();
        self
    }

    /// How long informers may take to sync: two minutes, unless told otherwise.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_timeout = limit;
        self
    }

    /// Adds to it while it runs.
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle { later: self.later.0.clone() }
    }

    /// Runs everything until `shutdown`, such as a [signal](shutdown_signal), or until something fails. If this is dropped,
    /// everything ends at once.
    ///
    /// # Errors
    /// See [`ManagerError`]. Being told to end is no error, whenever it happens.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn run(self, shutdown: impl Future + Send) -> Result<(), ManagerError> {
        let (mut run, plan) = RunningManager::new(self);
        let outcome = tokio::select! {
            biased;
            _ = shutdown => Ok(()),
            error = run.go(plan) => Err(error),
        };
        run.end(outcome).await
    }
}

impl ManagerHandle {
    /// Adds something that runs whether this process leads or not. It begins at once, or with the others of its kind if it is
    /// not yet their turn. If the manager is ending or has ended, nothing begins.
    pub fn always<F, Fut, E>(&self, name: impl Into<String>, begin: F)
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let _ = self.later.send(LateTask::Always(task(name, begin)));
    }

    /// Adds something that runs only while this process leads. It begins at once if it does.
    pub fn elected<F, Fut, E>(&self, name: impl Into<String>, begin: F)
    where
        F: FnOnce(StopSignal) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let _ = self.later.send(LateTask::Elected(task(name, begin)));
    }
}

fn task<F, Fut, E>(name: impl Into<String>, begin: F) -> ManagedTask
where
    F: FnOnce(StopSignal) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    let begin = |stop| -> TaskFuture { Box::pin(async move { begin(stop).await.map_err(Into::into) }) };
    ManagedTask { name: name.into(), begin: Box::new(begin) }
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
        f.debug_struct("ManagerHandle").field("is_running", &!self.later.is_closed()).finish()
    }
}
