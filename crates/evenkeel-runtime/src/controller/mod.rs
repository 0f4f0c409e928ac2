//! [`Controller`]: reconciles the objects of a kind whenever an event concerns them.
//!
//! ```text
//!  informers ─► predicates ─► keys ─► WorkQueue ─► workers ─► reconcile ─► API server
//!      ▲                                 ▲            │                        │
//!      │                                 └── parked ◄─┘ until the caches show   │
//!      └────────────────────────────────────────────────────── own writes ◄─────┘
//! ```

mod context;
mod definition;
mod deletion_waiters;
mod error;
mod handle;
mod history;
mod installation;
pub mod metrics;
mod next;
mod observed_writes;
mod parked_keys;
mod permissions;
pub mod predicate;
mod reconcile_error;
mod reconciler;
mod references;
mod shard_writes;
mod sharding;
mod source;
mod source_handler;
mod source_set;
mod source_slot;
mod standby;
mod start;
mod started;
mod trigger;
mod unique_name;
mod watched_kind;
mod watched_kinds;
mod workers;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::InformerFactory;
use evenkeel_cache::source::BoxFuture;
use evenkeel_client::{Client, PartialObjectMetadata, Unstructured};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use evenkeel_queue::RateLimiter;

use crate::clusters::ClusterMember;
use crate::events::EventRecorder;
use crate::health::Diagnostics;
use crate::inspect::Inspector;
use crate::ring::{Ring, WorkingRing};

pub use self::context::{Context, NotWatched};
pub use self::error::ControllerError;
pub use self::handle::{ControllerHandle, WatchHandle};
pub use self::next::Next;
pub use self::reconcile_error::{ReconcileError, RetryAfterError, TerminalError};
pub use self::reconciler::{Reconciler, reconcile_with};
pub use self::references::Reference;
pub use self::source::{Source, StaticKind};
pub use self::standby::{StandbyController, StopReport};
pub use self::trigger::Trigger;

use self::handle::CellGuard;
pub(crate) use self::metrics::ControllerMetrics;
use self::permissions::WatchedResource;
use self::predicate::Predicate;
use self::references::ReferenceIndex;
use self::source_slot::SourceSlot;
use self::start::WatchScope;
use self::started::ControllerSettings;
pub(crate) use self::started::not_synced;
pub(crate) use self::unique_name::UniqueName;

type OnDeleted = Arc<dyn Fn(ObjectKey, Context) -> BoxFuture<'static, Result<Next, ReconcileError>> + Send + Sync>;
type ConfigureQueue =
    Box<dyn FnOnce(evenkeel_queue::QueueBuilder<ObjectKey>) -> evenkeel_queue::QueueBuilder<ObjectKey> + Send>;

/// Returns a factory with these label and field selectors of the controller's own kind.
type SelectOwnKind = fn(&InformerFactory, &Arc<ResourceInfo>, &str, &str) -> InformerFactory;

/// Builds and runs a controller: `reconcile` runs for each object of kind `K`, and again whenever an event concerns the object
/// or an object that belongs to it.
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
/// # Guarantees
/// - One worker at a time reconciles a key. An event that arrives meanwhile causes another reconcile.
/// - No reconcile starts before all caches of the controller have synced. Sources that are added [later](ControllerHandle::watch), or that
///   [wait](Source::when_installed) for their kind, are not waited for.
/// - A reconcile sees the writes and deletions that the last reconcile of the same key made through its [`Context`]. While the
///   caches do not show them, the key is parked; workers and other keys continue. See [`own_writes`](Self::own_writes).
/// - A reconcile that fails, panics or exceeds its timeout is retried with a backoff per key.
/// - Changes are reconciled before the backlog of the initial list. The backlog is not dropped.
///
/// # Not guaranteed
/// - That each change causes a reconcile of its own: changes of a key in quick succession are coalesced.
/// - That the next reconcile sees a write whose response was lost. Deterministic names prevent a second object: the second
///   create conflicts.
///
/// # Lifetime
/// [`run`](Self::run) is a future. When `shutdown` resolves, the controller drains: workers finish the keys in flight within the
/// [grace period](Self::grace), then handlers and informers stop. Dropping the future stops everything at once. Nothing else stops
/// a controller, and nothing of it outlives the future.
///
/// A controller does nothing until [`run`](Self::run) or [`standby`](Self::standby). Both consume it, so that it cannot start
/// twice.
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<K> {
    client: Client,
    owner: Arc<ResourceInfo>,
    informers: Option<InformerFactory>,
    name: Option<String>,
    primary: Source<K>,
    /// Has the other sources.
    cell: CellGuard,
    /// The kinds of the other sources, for the permissions.
    watched: Vec<WatchedResource>,
    triggers: Vec<Trigger>,
    scope: WatchScope,
    select: SelectOwnKind,
    configure_queue: Vec<ConfigureQueue>,
    on_deleted: Option<OnDeleted>,
    diagnostics: Option<Diagnostics>,
    inspector: Option<Inspector>,
    recorder: Option<EventRecorder>,
    settings: ControllerSettings,
    member: Option<ClusterMember>,
    ring: Option<Arc<WorkingRing>>,
}

impl<K: StaticKind> Controller<K> {
    /// Returns a controller of the objects of kind `K`.
    pub fn new(client: &Client) -> Self {
        let select: SelectOwnKind = |informers, _, labels, fields| informers.selecting::<K>(labels, fields);
        Controller::over(client, client.resource::<K>(), Source::<K>::of(), select)
    }
}

impl Controller<Unstructured> {
    /// Returns a controller of the objects of a kind that is known only at run time.
    pub fn dynamic(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        let select: SelectOwnKind = InformerFactory::selecting_dynamic;
        Controller::over(client, Arc::clone(info), Source::dynamic(info), select)
    }
}

impl Controller<PartialObjectMetadata> {
    /// Returns a controller that requests and caches only the metadata of its objects.
    pub fn metadata(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        let select: SelectOwnKind = InformerFactory::selecting_metadata;
        Controller::over(client, Arc::clone(info), Source::metadata_of(info), select)
    }
}

impl<K: 'static> Controller<K> {
    fn over(client: &Client, owner: Arc<ResourceInfo>, source: Source<K>, select: SelectOwnKind) -> Self {
        Controller {
            client: client.clone(),
            owner,
            informers: None,
            name: None,
            primary: source.primary(),
            cell: CellGuard::new(),
            watched: Vec::new(),
            triggers: Vec::new(),
            scope: WatchScope::default(),
            select,
            configure_queue: Vec::new(),
            on_deleted: None,
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
                resync: None,
            },
            member: None,
            ring: None,
        }
    }

    /// Uses shared informers instead of its own. There is one for each kind, namespace and selector: a controller with a
    /// [`namespace`](Self::namespace), [`labels`](Self::labels) or [`fields`](Self::fields) shares those that have the same, and
    /// requests others from the same factory.
    ///
    /// The controller starts the informers that have not been started. Those that it watches stop with the last controller that does;
    /// others of the factory stop when this one ends. Start them before, or use a [`Manager`](crate::Manager), if they are to outlive
    /// this controller.
    pub fn informers(mut self, informers: &InformerFactory) -> Self {
        self.informers = Some(informers.clone());
        self
    }

    /// Uses these informers, unless others are set.
    pub(crate) fn default_informers(self, informers: &InformerFactory) -> Self {
        if self.informers.is_some() { self } else { self.informers(informers) }
    }

    /// Divides the objects among all replicas of the program that use this name: see [`ring`](crate::ring). Each replica caches and
    /// reconciles a part of the namespaces. Nothing in the reconcile changes.
    ///
    /// The same as [`sharded_in`](Self::sharded_in) with `Ring::new(client, name)`.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_runtime::manager::shutdown_signal;
    /// use evenkeel_runtime::{Controller, Next};
    /// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    ///
    /// Controller::<Deployment>::new(&client)
    ///     .owns::<ReplicaSet>()
    ///     .sharded("deployment-controller")
    ///     .run(shutdown_signal()?, |deployment, _| async move {
    ///         println!("{} is reconciled here", deployment.key());
    ///         Ok(Next::done())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sharded(self, name: impl Into<String>) -> Self {
        let ring = Ring::new(&self.client, name);
        self.sharded_in(ring)
    }

    /// Divides the objects among the members of a ring: all replicas of the program.
    ///
    /// # Guarantees
    /// - No two replicas reconcile one key at once, whatever the network, the clocks and the scheduler do: see [`Ring`] for the
    ///   assumptions. A reconcile whose key moves is finished first, or dropped at the [drain limit](Ring::drain_limit).
    /// - The caches of a replica have all objects of the namespaces that it reconciles, and no others. So have those of
    ///   [owned](Self::owns) and other namespaced kinds; [`Source::everywhere`] keeps all objects.
    /// - A reconcile sees what the previous replica wrote for that key, within the limit of [`own_writes`](Self::own_writes).
    /// - Each object of a gained namespace is reconciled once, with low priority. Deletions that are observed while the namespace moves
    ///   are reconciled too.
    ///
    /// # Not guaranteed
    /// - That backoffs, delays of [`Next`] and priorities move with the keys.
    /// - That a key that a source maps to another namespace is reconciled: only the replica that sees the event enqueues it, and drops it
    ///   if it does not hold that namespace. Use [`Source::everywhere`] for such sources.
    /// - That [`on_deleted`](Self::on_deleted) runs for objects that are deleted between the crash of a replica and the list of the
    ///   next. Use finalizers.
    ///
    /// With a [`Manager`](crate::Manager) the controller works in every replica, whether it leads or not.
    ///
    /// # Errors
    /// [`run`](Self::run) returns an error if the ring ends: see [`RingError`](crate::ring::RingError). The keys of a kind without a
    /// namespace cannot be divided by namespace, and none can by uid: use [`ShardBy::Key`](crate::ring::ShardBy::Key).
    pub fn sharded_in(mut self, ring: Ring) -> Self {
        self.ring = Some(Arc::new(WorkingRing::new(ring)));
        self
    }

    /// Returns whether the replicas of the program divide the objects.
    pub(crate) fn is_sharded(&self) -> bool {
        self.ring.is_some()
    }

    /// Makes this the part of a controller of several clusters that reconciles one of them. It shares name, metrics and workers with
    /// the others.
    pub(crate) fn member(mut self, member: ClusterMember) -> Self {
        self.member = Some(member);
        self
    }

    /// Sets the name in logs, metrics and events. Default: the kind in lower case. A number is appended if another controller of
    /// this process has the name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Restricts all watched kinds to this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.scope.namespace = namespace.into();
        self
    }

    /// Restricts the controller's own kind to objects whose labels match: a string such as `app=web`, or a
    /// [`LabelSelector`](evenkeel_core::LabelSelector).
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.scope.labels = selector.to_string();
        self
    }

    /// Restricts the controller's own kind to objects whose fields match: a string such as `spec.nodeName=n1`.
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.scope.fields = selector.to_string();
        self
    }

    /// Reconciles every object once per period, with low priority. Default: the period of the informers, which is never unless
    /// they are configured otherwise.
    ///
    /// A shared informer that runs already with a much longer period is an error of the start.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Drops events of the controller's own kind that the predicate rejects. May be called several times: all predicates must
    /// accept.
    pub fn when(mut self, predicate: impl Predicate<K>) -> Self {
        self.primary = self.primary.when(predicate);
        self
    }

    /// Watches kind `T`. An event of an object enqueues the object of kind `K` that controls it.
    pub fn owns<T: StaticKind>(self) -> Self {
        self.source(Source::<T>::of().owned())
    }

    /// Watches kind `T`. An event of an object enqueues the keys that the function returns.
    pub fn watches<T: StaticKind, I>(self, keys: impl FnMut(&Obj<T>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        self.source(Source::<T>::of().mapped(keys))
    }

    /// Watches objects that objects of kind `K` refer to by name, such as the Secret of a `spec.secretRef`. An event of such an
    /// object enqueues the objects that refer to it.
    ///
    /// `references` returns the references of an object: names in its namespace (or of cluster-scoped objects), or an [`ObjectKey`]
    /// for another namespace. The controller keeps an index of them, which every event of kind `K` updates, also one that a
    /// [predicate](Self::when) rejects. So the referenced object may be created before or after the reference, changed or deleted.
    ///
    /// `references` runs in the task of the handler, and must not block it.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_core::Obj;
    /// use evenkeel_runtime::controller::Source;
    /// use evenkeel_runtime::manager::shutdown_signal;
    /// use evenkeel_runtime::{Controller, Next};
    /// use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
    ///
    /// Controller::<ServiceAccount>::new(&client)
    ///     .references(Source::<Secret>::of(), |account: &Obj<ServiceAccount>| {
    ///         let secrets = account.typed().ok().and_then(|account| account.image_pull_secrets.clone());
    ///         secrets.unwrap_or_default().into_iter().map(|secret| secret.name)
    ///     })
    ///     .run(shutdown_signal()?, |account, ctx| async move {
    ///         println!("{}: {} secrets in the cache", account.key(), ctx.lister::<Secret>()?.list_all().len());
    ///         Ok(Next::done())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn references<T: 'static, I>(
        mut self,
        to: Source<T>,
        references: impl Fn(&Obj<K>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Reference>,
    {
        let index = Arc::new(ReferenceIndex::default());
        self.primary = self.primary.observed(index.updater(to.is_namespaced(), references));
        self.source(to.referenced(&index))
    }

    /// Caches kind `T` for reads with [`Context::lister`]. Its events enqueue nothing.
    pub fn reads<T: StaticKind>(self) -> Self {
        self.source(Source::<T>::of())
    }

    /// Watches another kind, configured by a [`Source`].
    pub fn source<T: 'static>(mut self, source: Source<T>) -> Self {
        self.watched.push(source.watched());
        self.cell.add(SourceSlot::new(Box::new(source), false));
        self
    }

    /// Waits without a limit until the controller's own kind is installed: see [`Source::when_installed`]. Until then nothing is
    /// reconciled. Other controllers are not affected.
    ///
    /// If the CustomResourceDefinition is deleted while the controller runs, the objects are reported as deleted: their keys are
    /// reconciled once more, by [`on_deleted`](Self::on_deleted). Then the controller waits again.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use evenkeel_core::ResourceInfo;
    /// use evenkeel_runtime::manager::shutdown_signal;
    /// use evenkeel_runtime::{Controller, Next};
    ///
    /// let foos = Arc::new(ResourceInfo::new("example.com", "v1", "Foo", "foos", true));
    /// Controller::dynamic(&client, &foos)
    ///     .when_installed()
    ///     .run(shutdown_signal()?, |foo, _| async move {
    ///         println!("{}", foo.key());
    ///         Ok(Next::done())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn when_installed(mut self) -> Self {
        self.primary = self.primary.when_installed();
        self
    }

    /// Returns a handle that adds sources, also while the controller runs, and reports whether it is ready.
    pub fn handle(&self) -> ControllerHandle {
        self.cell.handle(self.requested_name())
    }

    fn requested_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.owner.kind().to_lowercase())
    }

    /// Attaches a [`Trigger`].
    pub fn triggered_by(mut self, trigger: &Trigger) -> Self {
        self.triggers.push(trigger.clone());
        self
    }

    /// Sets the number of workers, which reconcile different keys concurrently. Default: 1. 0 counts as 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.settings.concurrency = NonZeroUsize::new(workers).map_or(1, NonZeroUsize::get);
        self
    }

    /// Sets the backoff of failed keys. Default: exponential from 5 ms to 1,000 s.
    pub fn limiter(self, limiter: impl RateLimiter<ObjectKey>) -> Self {
        self.queue(|queue| queue.limiter(limiter))
    }

    /// Configures the work queue. Its name is always that of the controller.
    pub fn queue(
        mut self,
        configure: impl FnOnce(evenkeel_queue::QueueBuilder<ObjectKey>) -> evenkeel_queue::QueueBuilder<ObjectKey>
        + Send
        + 'static,
    ) -> Self {
        self.configure_queue.push(Box::new(configure));
        self
    }

    /// Sets the timeout of one reconcile. Default: none. A reconcile that exceeds it is dropped, counted, and retried with backoff.
    /// Whether a write that was in flight succeeded is then unknown.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.timeout = Some(limit);
        self
    }

    /// Sets the time that the caches have to sync. Default: two minutes.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.settings.sync_timeout = limit;
        self
    }

    /// Sets the grace period: the time that reconciles, handlers and informers have to return after `shutdown`. Default: 30
    /// seconds. Reconciles in flight are dropped at its end. A handler that blocks its thread cannot be dropped: the controller
    /// leaves it behind and returns [`ControllerError::GraceExceeded`].
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets how long a key is parked at most because the caches do not show the writes of its last reconcile. Default: 10 seconds.
    /// After that the key is reconciled anyway, which is logged and counted, and once more when the caches show the writes. With
    /// `None` keys are not parked, and a reconcile may read data from before its own writes, as in controller-runtime.
    pub fn own_writes(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.settings.own_writes = limit.into();
        self
    }

    /// Sets whether a reconcile that panics is counted and retried. Default: true. Otherwise the panic stops the controller and
    /// propagates from [`run`](Self::run).
    pub fn recover_panics(mut self, recover: bool) -> Self {
        self.settings.recover_panics = recover;
        self
    }

    /// Sets a function that runs for keys without an object: deleted, or never existing. Default: nothing runs.
    ///
    /// Cleanup that must happen before an object is deleted belongs to a finalizer: the object is then reconciled during its
    /// deletion. This function is for cleanup afterwards. It does not run for objects that are deleted while the program is down.
    pub fn on_deleted<F, Fut>(mut self, on_deleted: F) -> Self
    where
        F: Fn(ObjectKey, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, ReconcileError>> + Send + 'static,
    {
        let on_deleted = Arc::new(on_deleted);
        self.on_deleted = Some(Arc::new(move |key, context| {
            let on_deleted = Arc::clone(&on_deleted);
            Box::pin(async move { on_deleted(key, context).await })
        }));
        self
    }

    /// Uses this event recorder instead of its own: a shared one, one with other [settings](EventRecorder::builder), or a
    /// [fake](crate::events::fake) for tests. The controller flushes it at shutdown and does not shut it down.
    pub fn recorder(mut self, recorder: EventRecorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Reports to these diagnostics under the name of the controller, while it runs. The section `controllers` contains informers,
    /// queue, parked keys and the last 100 failed keys; the section `queued` contains the last 1,000 enqueue reasons. Without
    /// diagnostics, nothing of it is recorded.
    ///
    /// Diagnostics keep neither informers nor the queue alive.
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Reports to these diagnostics, unless others are set.
    pub(crate) fn default_diagnostics(mut self, diagnostics: Option<&Diagnostics>) -> Self {
        self.diagnostics = self.diagnostics.or_else(|| diagnostics.cloned());
        self
    }

    /// Shows informers, queue and failures in this [`Inspector`] while the controller runs. The queue has the name of the
    /// controller.
    pub fn inspector(mut self, inspector: &Inspector) -> Self {
        self.inspector = Some(inspector.clone());
        self
    }

    /// Uses this inspector, unless another is set.
    pub(crate) fn default_inspector(mut self, inspector: Option<&Inspector>) -> Self {
        self.inspector = self.inspector.or_else(|| inspector.cloned());
        self
    }
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.name).field("settings", &self.settings).finish_non_exhaustive()
    }
}
