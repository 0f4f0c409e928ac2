//! [`Controller`]: from what happens to what is done about it.
//!
//! ```text
//!  informers ─► predicates ─► keys ─► WorkQueue ─► workers ─► reconcile ─► API server
//!      ▲                                 ▲            │                        │
//!      │                                 └── parked ◄─┘ until the caches show   │
//!      └────────────────────────────────────────────── what was written ◄──────┘
//! ```

mod context;
mod deletion_waiters;
mod error;
mod history;
pub mod metrics;
mod next;
mod observed_writes;
mod parked_keys;
pub mod predicate;
mod source;
mod standby;
mod started;
mod tracked;
mod trigger;
mod unique_name;
mod watched_kind;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_cache::InformerFactory;
use evenkeel_cache::factory::{InformerFactoryBuilder, KindSettings};
use evenkeel_cache::informer::Stopped;
use evenkeel_cache::source::BoxFuture;
use evenkeel_client::{Client, PartialObjectMetadata, Unstructured};
use evenkeel_core::{LabelSelector, Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::{RateLimiter, WorkQueue};
use tokio::sync::watch;

use crate::events::EventRecorder;
use crate::health::Diagnostics;
use crate::inspect::Inspector;

pub use self::context::{Context, NotWatched};
pub use self::error::ControllerError;
pub use self::next::{Next, ReconcileError};
pub use self::source::{Source, StaticKind};
pub use self::standby::StandbyController;
pub use self::tracked::{TrackedApi, TrackedCall, TrackedClient, TrackedSubresource};
pub use self::trigger::Trigger;

use self::context::ControllerShared;
use self::history::{DiagnosticsEntry, History};
use self::metrics::ControllerMetrics;
use self::predicate::Predicate;
use self::source::ControllerAssembly;
use self::started::{ControllerSettings, StartedController};
use self::unique_name::UniqueName;

type Deleted = Arc<dyn Fn(ObjectKey, Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Send + Sync>;
type Attach = Box<dyn FnOnce(&mut ControllerAssembly<'_>) -> Result<(), Stopped> + Send>;
type Configure = Box<dyn FnOnce(InformerFactoryBuilder) -> InformerFactoryBuilder + Send>;
type Tune = Box<dyn FnOnce(evenkeel_queue::QueueBuilder<ObjectKey>) -> evenkeel_queue::QueueBuilder<ObjectKey> + Send>;

/// Says which objects of the controller's own kind there are: their labels, and their fields.
type Select = fn(InformerFactoryBuilder, &Arc<ResourceInfo>, OwnKindSelector) -> InformerFactoryBuilder;

/// What is asked of the objects of a kind.
enum OwnKindSelector {
    Labels(String),
    Fields(String),
}

impl OwnKindSelector {
    fn add_to<K: 'static>(self, kind: KindSettings<K>) -> KindSettings<K> {
        match self {
            OwnKindSelector::Labels(labels) => kind.labels(labels),
            OwnKindSelector::Fields(fields) => kind.fields(fields),
        }
    }
}

/// Makes a controller: something that is done for each object of kind `K`, again whenever something happens to it or to what
/// belongs to it.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::manager::shutdown_signal;
/// use evenkeel_runtime::{Controller, Next};
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
///
/// Controller::<Deployment>::new(&client)
///     .owns::<ReplicaSet>()
///     .concurrency(4)
///     .run(shutdown_signal()?, |deployment, ctx| async move {
///         let sets = ctx.lister::<ReplicaSet>()?;
///         println!("{} and {} sets", deployment.key(), sets.list_all().len());
///         Ok(Next::done())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// # What holds
/// - A key is reconciled by one worker at a time, and again if anything about it happens meanwhile.
/// - No reconcile begins before all that the controller looks at is there, and was seen.
/// - A reconcile sees what the last one of the same key has written through its [`Context`], also what it has deleted. While
///   the caches do not show it, the key is parked; workers and other keys go on. See [`own_writes`](Self::own_writes).
/// - A reconcile that fails, panics or takes too long is tried again after a back-off which is that key's own.
/// - What changes is reconciled before the backlog of the first list, and the backlog is not forgotten for that.
/// - When it ends, or is dropped, nothing of it is left running.
///
/// # What does not
/// - That every change is seen by a reconcile: those that come close together are one.
/// - That a write whose answer was lost is seen by the next reconcile. Give objects names that a second attempt would collide
///   with, and it cannot be done twice.
///
/// It does nothing until [`run`](Self::run) or [`standby`](Self::standby). Both take it, so that it cannot begin twice.
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<K> {
    client: Client,
    owner: Arc<ResourceInfo>,
    informers: Option<InformerFactory>,
    name: Option<String>,
    primary: Source<K>,
    sources: Vec<Attach>,
    triggers: Vec<Trigger>,
    configure: Vec<Configure>,
    namespace: Option<String>,
    labels: Option<String>,
    select: Select,
    tune: Vec<Tune>,
    deleted: Option<Deleted>,
    diagnostics: Option<Diagnostics>,
    inspector: Option<Inspector>,
    recorder: Option<EventRecorder>,
    settings: ControllerSettings,
}

impl<K: StaticKind> Controller<K> {
    /// A controller of the objects of kind `K`.
    pub fn new(client: &Client) -> Self {
        let select: Select = |informers, _, selectors| informers.configure::<K>(|kind| selectors.add_to(kind));
        Controller::over(client, client.resource::<K>(), Source::<K>::of(), select)
    }
}

impl Controller<Unstructured> {
    /// A controller of the objects of a kind that is only known now.
    pub fn dynamic(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        let select: Select =
            |informers, info, selectors| informers.configure_dynamic(info, |kind| selectors.add_to(kind));
        Controller::over(client, Arc::clone(info), Source::dynamic(info), select)
    }
}

impl Controller<PartialObjectMetadata> {
    /// A controller of the objects of a kind, of which nothing but the metadata is asked for and kept.
    pub fn metadata(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        let select: Select =
            |informers, info, selectors| informers.configure_metadata(info, |kind| selectors.add_to(kind));
        Controller::over(client, Arc::clone(info), Source::metadata_of(info), select)
    }
}

impl<K: 'static> Controller<K> {
    fn over(client: &Client, owner: Arc<ResourceInfo>, source: Source<K>, select: Select) -> Self {
        Controller {
            client: client.clone(),
            owner,
            informers: None,
            name: None,
            primary: source.primary(),
            sources: Vec::new(),
            triggers: Vec::new(),
            configure: Vec::new(),
            namespace: None,
            labels: None,
            select,
            tune: Vec::new(),
            deleted: None,
            diagnostics: None,
            recorder: None,
            inspector: None,
            settings: ControllerSettings {
                concurrency: 1,
                timeout: None,
                sync_timeout: Duration::from_secs(120),
                grace: Duration::from_secs(30),
                own_writes: Some(Duration::from_secs(10)),
                recover_panics: true,
            },
        }
    }

    /// Looks at what there is through these informers, which others use too, in place of some of its own. Which objects they
    /// are about is said to the factory.
    pub fn informers(mut self, informers: &InformerFactory) -> Self {
        self.informers = Some(informers.clone());
        self
    }

    /// Uses these informers, unless it was told of others, or which objects it is about.
    pub(crate) fn default_informers(self, informers: &InformerFactory) -> Self {
        if self.informers.is_some() || !self.configure.is_empty() { self } else { self.informers(informers) }
    }

    /// What it is called in logs and metrics, and by its events: the kind in small letters, unless told otherwise. If another
    /// controller of this process has the name, it is numbered.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only objects in this namespace, of all kinds that it looks at.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        self.configure.push(Box::new({
            let namespace = namespace.clone();
            move |informers| informers.namespace(namespace)
        }));
        self.namespace = Some(namespace);
        self
    }

    /// Only objects of its own kind whose labels match: a text such as `app=web`, or a [`LabelSelector`].
    pub fn labels(mut self, selector: impl ToString) -> Self {
        let labels = selector.to_string();
        self.labels = Some(labels.clone());
        self.select(OwnKindSelector::Labels(labels))
    }

    /// Only objects of its own kind whose fields match: a text such as `spec.nodeName=n1`.
    pub fn fields(self, selector: impl ToString) -> Self {
        self.select(OwnKindSelector::Fields(selector.to_string()))
    }

    fn select(mut self, selectors: OwnKindSelector) -> Self {
        let (select, owner) = (self.select, Arc::clone(&self.owner));
        self.configure.push(Box::new(move |informers| select(informers, &owner, selectors)));
        self
    }

    /// Reconciles everything again each time so much time has passed, with low priority: never, unless told so.
    pub fn resync(mut self, period: Duration) -> Self {
        self.configure.push(Box::new(move |informers| informers.resync(period)));
        self
    }

    /// Only events of its own kind that this accepts. If this is said several times, all of them must.
    pub fn when(mut self, predicate: impl Predicate<K>) -> Self {
        self.primary = self.primary.when(predicate);
        self
    }

    /// What happens to objects of this kind is about the object of kind `K` that controls them.
    pub fn owns<T: StaticKind>(self) -> Self {
        self.source(Source::<T>::of().owned())
    }

    /// What happens to objects of this kind is about the objects of kind `K` whose keys the function says.
    pub fn watches<T: StaticKind, I>(self, keys: impl FnMut(&Obj<T>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        self.source(Source::<T>::of().mapped(keys))
    }

    /// Objects of this kind are looked up by reconciles, with [`Context::lister`]. What happens to them is about nothing.
    pub fn reads<T: StaticKind>(self) -> Self {
        self.source(Source::<T>::of())
    }

    /// Listens to another kind, of which more is to be said.
    pub fn source<T: 'static>(mut self, source: Source<T>) -> Self {
        self.sources.push(Box::new(move |assembly| source.attach(assembly)));
        self
    }

    /// Keys are also reconciled when this says so.
    pub fn triggered_by(mut self, trigger: &Trigger) -> Self {
        self.triggers.push(trigger.clone());
        self
    }

    /// So many reconciles can run at the same time, of different keys: 1, unless told otherwise. 0 is taken for 1.
    pub fn concurrency(mut self, reconciles: usize) -> Self {
        self.settings.concurrency = NonZeroUsize::new(reconciles).map_or(1, NonZeroUsize::get);
        self
    }

    /// How long a key waits that has failed: 5 ms after the first time, twice as long after each further one, and at most
    /// 1,000 s, unless told otherwise.
    pub fn limiter(self, limiter: impl RateLimiter<ObjectKey>) -> Self {
        self.queue(|queue| queue.limiter(limiter))
    }

    /// Configures the work queue. Its name is that of the controller.
    pub fn queue(
        mut self,
        tune: impl FnOnce(evenkeel_queue::QueueBuilder<ObjectKey>) -> evenkeel_queue::QueueBuilder<ObjectKey>
        + Send
        + 'static,
    ) -> Self {
        self.tune.push(Box::new(tune));
        self
    }

    /// How long one reconcile may take: as long as it likes, unless told otherwise. One that takes longer is dropped, counted,
    /// and tried again after its back-off. Whether a write that it waited for was done is then not known.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.timeout = Some(limit);
        self
    }

    /// How long it may take until all that the controller looks at is there: two minutes, unless told otherwise.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.settings.sync_timeout = limit;
        self
    }

    /// How long reconciles may take to finish when the controller is to end: 30 seconds, unless told otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long a key is parked at most because the caches do not show yet what its last reconcile has written: 10 seconds,
    /// unless told otherwise. After that it is reconciled all the same, which is logged and counted. With `None`, reconciles
    /// may see what was before their own writes, as those of other libraries do.
    pub fn own_writes(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.settings.own_writes = limit.into();
        self
    }

    /// Whether a reconcile that panics is counted and tried again, which is the default. If not, its panic ends the
    /// controller and comes out of [`run`](Self::run).
    pub fn recover_panics(mut self, recover: bool) -> Self {
        self.settings.recover_panics = recover;
        self
    }

    /// What is done for a key of which there is no object, because it was deleted or was never there. Without this, nothing
    /// is done.
    ///
    /// An object that must not go before something is done for it should have a finalizer: then it is reconciled while its
    /// deletion is under way. This is for what can be done afterwards, and is missed if the object goes while the program
    /// does not run.
    pub fn on_deleted<F, Fut>(mut self, deleted: F) -> Self
    where
        F: Fn(ObjectKey, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let deleted = Arc::new(deleted);
        self.deleted = Some(Arc::new(move |key, context| {
            let deleted = Arc::clone(&deleted);
            Box::pin(async move { deleted(key, context).await })
        }));
        self
    }

    /// Tells people what it does through this recorder, in place of one of its own: one that others use too, one with other
    /// [settings](EventRecorder::builder), or one that [writes to memory](crate::events::fake), for tests. It is not shut down
    /// when the controller ends; what was recorded by then is waited for.
    pub fn recorder(mut self, recorder: EventRecorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Shows in these diagnostics, from when it begins until it has ended, by its name: in the section `controllers` its informers,
    /// its queue, which keys are parked, and how reconciles failed, for the last 100 keys that did; in the section `queued` the
    /// last 1,000 reasons why a key was queued. Without this, none of it is remembered.
    ///
    /// Diagnostics keep neither informers nor the queue alive.
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Shows in these diagnostics, unless it was told of others.
    pub(crate) fn default_diagnostics(mut self, diagnostics: Option<&Diagnostics>) -> Self {
        self.diagnostics = self.diagnostics.or_else(|| diagnostics.cloned());
        self
    }

    /// Shows its informers, its queue and its failures in this [`Inspector`], from when it begins until it has ended. The queue has
    /// the name of the controller.
    pub fn inspector(mut self, inspector: &Inspector) -> Self {
        self.inspector = Some(inspector.clone());
        self
    }

    /// Shows in this inspector, unless it was told of another.
    pub(crate) fn default_inspector(mut self, inspector: Option<&Inspector>) -> Self {
        self.inspector = self.inspector.or_else(|| inspector.cloned());
        self
    }

    /// Begins to fill caches and queue, and no more. This is for replicas that stand by: they have everything at hand when
    /// it is their turn to [lead](StandbyController::lead).
    ///
    /// # Errors
    /// If what was said contradicts itself, or if an informer that others use too has ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn standby(self) -> Result<StandbyController<K>, ControllerError> {
        let owner = self.owner;
        let name = UniqueName::claim(&self.name.unwrap_or_else(|| owner.kind().to_lowercase()));
        let misbuilt = |problem: String| ControllerError::InvalidConfig { controller: name.to_string(), problem };
        let labels = match self.labels.as_deref().map(LabelSelector::parse).transpose() {
            Ok(labels) => labels,
            Err(error) => return Err(misbuilt(error.to_string())),
        };
        if self.informers.is_some() && !self.configure.is_empty() {
            let problem = "which objects there are, and how often they are told of again, is said to the factory if its \
                           informers are shared";
            return Err(misbuilt(problem.to_owned()));
        }
        let is_shared = self.informers.is_some();
        let informers = self.informers.unwrap_or_else(|| {
            let builder = InformerFactory::builder(&self.client).name(name.as_str());
            self.configure.into_iter().fold(builder, |builder, configure| configure(builder)).build()
        });
        let builder = self.tune.into_iter().fold(WorkQueue::builder(), |builder, tune| tune(builder));
        let queue = builder.name(name.as_str()).build();
        let history = if self.diagnostics.is_some() { History::open() } else { History::default() };
        let (mut kinds, mut registrations) = (Vec::new(), Vec::new());
        if let Some(inspector) = &self.inspector {
            inspector.queue(name.as_str(), &queue);
        }
        let mut assembly = ControllerAssembly {
            informers: &informers,
            queue: &queue,
            owner: &owner,
            namespace: self.namespace.as_deref(),
            labels: labels.as_ref(),
            kinds: &mut kinds,
            registrations: &mut registrations,
            history: &history,
            inspector: self.inspector.as_ref(),
        };
        let attached = self.primary.attach(&mut assembly);
        let attached =
            self.sources.into_iter().fold(attached, |so_far, attach| so_far.and_then(|()| attach(&mut assembly)));
        let metrics = Arc::new(ControllerMetrics::new(name.as_str(), self.settings.concurrency));
        let owns_recorder = self.recorder.is_none();
        let shared = Arc::new(ControllerShared {
            name,
            client: self.client,
            kinds: kinds.into(),
            recorder: self.recorder.map_or_else(OnceLock::new, OnceLock::from),
            stopping: watch::Sender::new(false),
        });
        let settings = self.settings;
        let diagnostics_entry =
            self.diagnostics.and_then(|diagnostics| DiagnosticsEntry::new(diagnostics, &history, &shared, &queue));
        let started = StartedController {
            shared,
            queue,
            registrations,
            metrics,
            settings,
            informers,
            owns_informers: !is_shared,
            owns_recorder,
            history,
            diagnostics_entry,
        };
        if let Err(source) = attached {
            // Dropping the started takes those handlers away that were added.
            return Err(ControllerError::InformerStopped { controller: started.shared.name.to_string(), source });
        }
        for trigger in self.triggers {
            trigger.attach(&started.queue, &started.history);
        }
        started.informers.start();
        Ok(StandbyController { started, deleted: self.deleted, kind: PhantomData })
    }

    /// Runs until `shutdown`: stops to take keys, lets reconciles finish within the [grace](Self::grace), and comes to an
    /// end. If this is dropped, everything ends at once.
    ///
    /// `reconcile` is called for each key of which there is an object, with the object as it was in the cache then. It reads
    /// what is there, compares it with what should be, and does what is missing; it may be called at any time, and any number
    /// of times.
    ///
    /// # Errors
    /// If it could not begin, or did not end well. If `shutdown` comes before it has begun, that is no error.
    ///
    /// # Panics
    /// Outside of a tokio runtime; and if a reconcile panics, but only if [`recover_panics`](Self::recover_panics) was said
    /// to be false.
    pub async fn run<F, Fut>(self, shutdown: impl Future + Send, reconcile: F) -> Result<(), ControllerError>
    where
        F: Fn(Obj<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        self.standby()?.lead(shutdown, reconcile).await
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("sources", &(self.sources.len() + 1))
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
