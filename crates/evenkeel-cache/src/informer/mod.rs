//! [`SharedInformer`]: one reflector or one for each namespace, one store, any number of handlers.

mod consistency;
mod driver;
mod hold;
mod kind_gone;
mod listener;
pub(crate) mod metrics;
pub mod observe;
mod options;
mod process_loop;
mod processor;
mod ranged;
mod ranged_driver;
mod ranged_sink;
mod ranged_streams;
mod registration;
mod resync;
mod running;
mod scoped_driver;
mod scoped_sink;
mod scopes;
mod shared;
mod status;
mod subscription;
#[cfg(test)]
mod testing;
mod weak;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_base::task::scheduled;
use evenkeel_core::shard::{ShardKey, ShardRanges};
use evenkeel_core::{ResourceInfo, ResourceVersion};

use self::consistency::ConsistencyChecker;
use self::driver::DriverGuard;
use self::listener::{Callback, Listener};
use self::metrics::{HandlerMetrics, Identity, ViewMetrics};
use self::observe::{Observer, ObserverGuard};
use self::processor::{HandlerRunner, Processor};
use self::ranged::RangedShared;
use self::ranged_driver::RangedReflectors;
use self::scoped_driver::ScopedReflectors;
use self::scopes::ScopedShared;
use self::shared::{InformerPhase, Parts, Reflectors};
use crate::delta_fifo::DeltaFifo;
use crate::delta_queue::DeltaQueue;
use crate::handler::{Handler, HandlerOptions};
use crate::namespaces::{NamespaceSet, Scope};
use crate::ordered_queue::{ListMode, OrderedQueue};
use crate::reflector::Reflector;
use crate::reflector::shards::Shards;
use crate::source::{BoxFuture, ListerWatcher};
use crate::store::{Index, IndexError, NAMESPACE_INDEX, Table};
use crate::view::{PreparedView, Views};
use crate::{Event, Indexer, ShardScope};

pub(crate) use self::consistency::sleep_until_some;
pub use self::consistency::{ConsistencyOutcome, ConsistencyReport};
pub use self::hold::InformerHold;
pub use self::kind_gone::KindGone;
pub use self::listener::Lag;
#[cfg(feature = "client")]
pub(crate) use self::options::ShardsIdentity;
pub use self::options::{InformerOptions, QueueKind};
pub(crate) use self::options::{InformerSettings, InformerShards};
pub use self::registration::{Registration, Stopped};
pub use self::running::RunningInformers;
pub use self::scopes::OnForbidden;
pub(crate) use self::shared::InformerShared;
pub use self::status::{InformerStatus, NamespaceStatus};
pub use self::subscription::Subscription;
pub use self::weak::WeakInformer;
pub use crate::reflector::{
    Backoff, LastError, OnTransformError, Recovery, ReflectorError, ReflectorFailure, ReflectorPhase, ReflectorReport,
};

/// A local copy of the objects of one kind, kept up to date by list and watch, with any number of handlers.
///
/// Clones are handles of the same informer.
///
/// # Guarantees
///
/// - A handler receives the changes of an object in order, one call at a time. There is no order between handlers.
/// - The store is written before handlers are notified: a handler that reads the [`indexer`](Self::indexer) finds the object
///   of its notification, or a newer one.
/// - A handler that is added late receives all stored objects as additions (`initial`), then the changes. None is left out
///   and none is delivered twice.
/// - A slow handler does not delay others: each has a task and a queue of its own.
///   [`Delivery`](crate::handler::Delivery) says what that costs.
/// - After a lost watch the informer resumes at the last resource version. If the server has compacted that version, the
///   informer relists and delivers the difference. Changes in between may then arrive as one, and a delete carries the last
///   known state only: [`Deleted::Missed`](crate::Deleted::Missed).
///
/// # Not guaranteed
///
/// - That every state of an object is delivered: the server does not send them all either.
/// - That an update is a change: relists and resyncs deliver unchanged objects. Compare resource versions.
///
/// # Lifetimes
///
/// - [`start`](Self::start) returns a [`RunningInformers`] handle. Dropping it, or calling [`stop`](RunningInformers::stop) or
///   [`drain`](RunningInformers::drain) on it, stops what that call started.
/// - Nothing else does: dropping an informer, a lister, a factory or a registration stops nothing.
/// - A handler stays until [`Registration::remove`]. A [`Subscription`] is its own handle: dropping it removes its listener.
/// - An informer starts once. When it has stopped, its store keeps its contents.
/// - Users that come and go [hold](Self::hold) the informer instead: it runs until the last hold is dropped.
pub struct SharedInformer<K> {
    shared: Arc<InformerShared>,
    kind: PhantomData<fn() -> K>,
}

/// What fills the parts of a store.
enum InformerParts {
    /// One reflector.
    Whole,
    /// One reflector for each of several namespaces.
    Scoped(ScopedShared),
    /// One reflector for each of several ranges of places.
    Ranged(RangedShared),
}

impl<K> SharedInformer<K> {
    /// Returns the name of the informer in logs and metrics.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the kind of the objects.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.shared.info
    }

    /// Returns the store. It can be read at any time and is complete once the informer [has synced](Self::has_synced).
    pub fn indexer(&self) -> Indexer<K> {
        Indexer::over(Arc::clone(&self.shared.table))
    }

    /// Adds indexes and indexes the stored objects.
    ///
    /// # Errors
    /// If an index of that name exists, or if the informer has stopped. No index is added then.
    pub fn add_indexes(&self, indexes: impl IntoIterator<Item = Index<K>>) -> Result<(), IndexError> {
        if self.is_stopped() {
            return Err(IndexError::Stopped { informer: self.name().to_owned() });
        }
        self.indexer().add_indexes(indexes)
    }

    /// Starts the informer in tasks of the current runtime. Dropping the returned handle stops it.
    ///
    /// An informer starts once: a second call logs a warning and returns a handle that stops nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) -> RunningInformers {
        let runtime = tokio::runtime::Handle::current();
        let mut running = RunningInformers::default();
        match self.shared.start(&runtime) {
            Some(task) => {
                runtime.spawn(scheduled(driver::drive(DriverGuard { shared: Arc::clone(&self.shared), _task: task })));
                running.push(Arc::clone(&self.shared));
            }
            None => tracing::warn!(informer = self.name(), "informer was started before; not started again"),
        }
        running
    }

    /// Waits until the informer has stopped and none of its tasks is left.
    pub async fn stopped(&self) {
        self.shared.stopped().await;
    }

    /// Returns `true` if the informer has been started, even if it has stopped since.
    pub fn is_started(&self) -> bool {
        self.shared.is_started()
    }

    /// Returns `true` if the informer has stopped: the store does not change any more.
    pub fn is_stopped(&self) -> bool {
        self.shared.lifecycle().phase == InformerPhase::Stopped
    }

    /// Returns `true` once the store holds the complete initial list. It stays `true`.
    pub fn has_synced(&self) -> bool {
        self.shared.lifecycle().synced
    }

    /// Returns the places whose objects are all in the store. An informer that does not run covers none.
    ///
    /// Without [`shards`](InformerOptions::shards) and [`shard_scope`](InformerOptions::shard_scope), an informer that has synced covers all
    /// places.
    pub fn covered(&self) -> ShardRanges {
        self.shared.covered()
    }

    /// Waits until the store [covers](Self::covered) these places. That does not happen if the informer is never for them.
    ///
    /// # Errors
    /// If the informer stops before.
    pub async fn wait_until_covered(&self, ranges: &ShardRanges) -> Result<(), Stopped> {
        match self.shared.wait_until_covered(ranges).await {
            true => Ok(()),
            false => Err(Stopped::new(self.name(), "it does not cover the places")),
        }
    }

    /// Returns the number of complete lists that the informer received so far; that of an informer of
    /// [several namespaces](crate::NamespaceSet) has lists of each of them. As long as it does not change, no change of an object
    /// was left out.
    pub fn complete_lists(&self) -> u64 {
        self.shared.complete_lists.load(Ordering::Relaxed)
    }

    /// Waits until the informer [has synced](Self::has_synced).
    ///
    /// # Errors
    /// If the informer stops before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        let mut lifecycle = self.shared.watch_lifecycle();
        let is_decided = |lifecycle: &shared::Lifecycle| lifecycle.synced || lifecycle.phase == InformerPhase::Stopped;
        let reached = lifecycle.wait_for(is_decided).await.map(|lifecycle| *lifecycle);
        match reached {
            Ok(lifecycle) if lifecycle.synced => Ok(()),
            _ => Err(Stopped::new(self.name(), "it did not sync")),
        }
    }

    /// Returns a future that is ready when the informer has synced, and never if it stops before. It keeps no store.
    pub(crate) fn synced_or_never(&self) -> BoxFuture<'static, ()> {
        let mut lifecycle = self.shared.watch_lifecycle();
        Box::pin(async move {
            if lifecycle.wait_for(|lifecycle| lifecycle.synced).await.is_err() {
                std::future::pending().await
            }
        })
    }

    /// Returns the resource version of the last list or event from the server; empty before the first. Readers may be a moment
    /// behind: [`Indexer::resource_version`] is the version of the store.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.shared.last_sync_resource_version()
    }

    /// Registers an observer of each object's path through the informer. Dropping the guard unregisters it.
    ///
    /// Without observers the cost is one load at each event, notification and call.
    ///
    /// ```
    /// use evenkeel_cache::SharedInformer;
    /// use evenkeel_cache::informer::observe::{InformerEvent, Observer};
    ///
    /// struct Printer;
    ///
    /// impl Observer for Printer {
    ///     fn event(&self, event: InformerEvent<'_>) {
    ///         if let InformerEvent::Received(delta) = event {
    ///             println!("{delta:?}");
    ///         }
    ///     }
    /// }
    ///
    /// fn print_events<K>(informer: &SharedInformer<K>) -> impl Sized + use<K> {
    ///     informer.observe(Printer)
    /// }
    /// ```
    pub fn observe(&self, observer: impl Observer) -> ObserverGuard {
        self.shared.observers.register(Box::new(observer))
    }

    /// Compares the store with a list of exactly its resource version, and relists if they differ.
    ///
    /// # Guarantees
    /// - The comparison is of one version: changes during the check cause no difference. If the server no longer has that version,
    ///   or does not support exact lists, the outcome is [`Inconclusive`](ConsistencyOutcome::Inconclusive).
    /// - When this returns [`Inconsistent`](ConsistencyOutcome::Inconsistent), a relist without a version is due. It delivers the
    ///   difference to the handlers.
    /// - Each of [several namespaces](crate::NamespaceSet) is compared at its own version, one after the other, and only those that
    ///   differ are relisted.
    /// - The check holds sixteen bytes per object and one page. Checks run one at a time; calls that wait for the same check
    ///   receive the same report.
    /// - Every report is logged, counted in [`CONSISTENCY_CHECKS`](crate::metrics::CONSISTENCY_CHECKS) and part of the
    ///   [`status`](Self::status).
    ///
    /// # Not guaranteed
    /// Objects are compared by key and resource version, not by contents: the server assigns a new version to every change.
    ///
    /// ```
    /// # use evenkeel_cache::SharedInformer;
    /// use evenkeel_cache::informer::ConsistencyOutcome;
    ///
    /// # async fn example<K: 'static>(informer: &SharedInformer<K>) {
    /// let report = informer.check_consistency().await;
    /// if let ConsistencyOutcome::Inconsistent { examples, .. } = &report.outcome {
    ///     println!("{report}, such as {examples:?}");
    /// }
    /// # }
    /// ```
    pub async fn check_consistency(&self) -> ConsistencyReport {
        self.shared.check_consistency().await
    }

    /// Returns the state of the informer at this moment.
    pub fn status(&self) -> InformerStatus {
        self.shared.status()
    }
}

impl<K: 'static> SharedInformer<K> {
    /// Returns an informer of the objects of a source, which are of this kind. It does nothing until it is
    /// [started](Self::start).
    pub fn new(source: impl ListerWatcher, info: &Arc<ResourceInfo>, options: InformerOptions<K>) -> Self {
        let name = options.settings.name.clone().unwrap_or_else(|| info.plural().to_owned());
        Self::with_source(Arc::new(source), info, options, name)
    }

    pub(crate) fn with_source(
        source: Arc<dyn ListerWatcher>,
        info: &Arc<ResourceInfo>,
        options: InformerOptions<K>,
        name: String,
    ) -> Self {
        if let Some(InformerShards::Scope(key, scope)) = &options.settings.shards {
            let (key, scope) = (key.of_kind(info), scope.clone());
            return Self::with_scope(source, key, &scope, info, options, name);
        }
        let identity = Identity::new(&name, info);
        let reflector = Reflector::builder(Arc::clone(&source), Arc::clone(info)).name(identity.name());
        let shards = options.settings.shared_shards(info);
        let reflector = Box::new(options.settings.reflector(reflector).shared_shards(shards.clone()));
        let reflectors = Reflectors::One { reflector, source };
        Self::assemble(reflectors, InformerParts::Whole, shards, info, options, name, identity)
    }

    /// Returns an informer whose places follow a scope.
    fn with_scope(
        source: Arc<dyn ListerWatcher>,
        key: ShardKey,
        scope: &ShardScope,
        info: &Arc<ResourceInfo>,
        options: InformerOptions<K>,
        name: String,
    ) -> Self {
        let identity = Identity::new(&name, info);
        let (info_of_reflector, settings) = (Arc::clone(info), options.settings.clone());
        let (unique, source_of_reflector) = (identity.name().to_owned(), Arc::clone(&source));
        let reflector = move || {
            let source = Arc::clone(&source_of_reflector);
            settings.reflector(Reflector::builder(source, Arc::clone(&info_of_reflector)).name(&*unique))
        };
        let reflectors = RangedReflectors {
            source,
            reflector: Box::new(reflector),
            prototype: Arc::new(Shards::by(key, ShardRanges::empty(), info)),
            wanted: scope.watch(),
        };
        let kind = InformerParts::Ranged(RangedShared::new(scope));
        let informer = Self::assemble(Reflectors::Ranged(reflectors), kind, None, info, options, name, identity);
        scope.join(&informer.shared);
        informer
    }

    /// Returns an informer with one reflector for each namespace of a set, which lists and watches the source of that scope.
    pub(crate) fn with_namespaces(
        set: &NamespaceSet,
        sources: impl Fn(&Scope) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
        info: &Arc<ResourceInfo>,
        options: InformerOptions<K>,
        name: String,
    ) -> Self {
        let identity = Identity::new(&name, info);
        let scoped = ScopedShared::new(set.clone(), options.settings.on_forbidden.unwrap_or_default());
        let (info_of_reflector, settings) = (Arc::clone(info), options.settings.clone());
        let unique = identity.name().to_owned();
        let shards = options.settings.shared_shards(info);
        let shards_of_all = shards.clone();
        let reflector = move |scope: &Scope, source| {
            let name = format!("{unique} in {}", scope.describe());
            let reflector = Reflector::builder(source, Arc::clone(&info_of_reflector)).name(name);
            settings.reflector(reflector).shared_shards(shards_of_all.clone())
        };
        let (source, reflector) = (Box::new(sources), Box::new(reflector));
        let reflectors = Reflectors::PerNamespace(ScopedReflectors { source, reflector, wanted: set.watch() });
        let informer = Self::assemble(reflectors, InformerParts::Scoped(scoped), shards, info, options, name, identity);
        set.join(&informer.shared);
        informer
    }

    fn assemble(
        reflectors: Reflectors,
        parts_of_store: InformerParts,
        shards: Option<Arc<Shards>>,
        info: &Arc<ResourceInfo>,
        options: InformerOptions<K>,
        name: String,
        identity: Identity,
    ) -> Self {
        let options = options.settings;
        let selected = options.selected();
        let checker = ConsistencyChecker {
            resource: Arc::clone(info),
            transform: options.transform.clone(),
            limits: options.list_limits(),
            shards,
            interval: options.check_interval.filter(|interval| !interval.is_zero()),
        };
        let queue: DeltaQueue = match options.queue.unwrap_or_default() {
            QueueKind::Ordered => OrderedQueue::new(ListMode::Atomic).into(),
            QueueKind::OrderedPerItem => OrderedQueue::new(ListMode::PerItem).into(),
            QueueKind::Keyed => DeltaFifo::new().into(),
        };
        let mut indexes = options.indexes;
        if indexes.iter().any(|index| index.name() == NAMESPACE_INDEX) {
            tracing::warn!(
                informer = name,
                "every informer has an index {NAMESPACE_INDEX:?}; the given one is ignored"
            );
        }
        // Of indexes with the same name the last one is used, and listers rely on this one.
        indexes.push(Index::namespace());
        let table = match &parts_of_store {
            InformerParts::Whole => Table::new(indexes),
            InformerParts::Scoped(scoped) => Table::with_namespaces(indexes, Some(scoped.set.clone())),
            InformerParts::Ranged(_) => Table::new(indexes).of_places(),
        };
        let table = Arc::new(table);
        let processor = Processor::new(options.resync.unwrap_or_default());
        let (check, checks) = consistency::requests();
        let parts = Parts { reflectors, queue, checker, checks };
        let mut shared = InformerShared::new(name, identity, Arc::clone(info), table, processor, parts, check);
        shared.selected = selected;
        match parts_of_store {
            InformerParts::Whole => {}
            InformerParts::Scoped(scoped) => shared.scoped = Some(scoped),
            InformerParts::Ranged(ranged) => shared.ranged = Some(ranged),
        }
        SharedInformer { shared: Arc::new(shared), kind: PhantomData }
    }

    /// Adds a handler. The same handler may be added again; each registration receives everything.
    ///
    /// [`Handler::options`] is read once, now. Dropping the registration does not remove the handler.
    ///
    /// # Errors
    /// If the informer has stopped: the handler was not added.
    pub fn add_handler(&self, mut handler: impl Handler<K>) -> Result<Registration, Stopped> {
        let options = handler.options();
        let name = options.name.clone().unwrap_or_else(|| handler.name().into_owned().into());
        let listener = self.listener(&name, &options);
        let callback: Callback = Box::new(move |event: Event<evenkeel_core::Untyped>| handler.handle(event.cast()));
        self.add_listener(&listener, &options, Some(HandlerRunner { callback, blocking: options.blocking }))?;
        Ok(Registration::new(&self.shared, &listener))
    }

    /// Returns a stream of notifications: the stored objects first, then the changes. Dropping the stream removes its
    /// listener.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn subscribe(&self, options: HandlerOptions) -> Result<Subscription<K>, Stopped> {
        let number = self.shared.subscriptions.fetch_add(1, Ordering::Relaxed) + 1;
        let name = options.name.clone().unwrap_or_else(|| format!("subscription-{number}").into());
        let listener = self.listener(&name, &options);
        self.add_listener(&listener, &options, None)?;
        Ok(Subscription::new(Arc::clone(&self.shared), listener))
    }

    pub(crate) fn views(&self) -> &Views {
        &self.shared.views
    }

    pub(crate) fn view_metrics(&self, view: &str) -> ViewMetrics {
        ViewMetrics::new(&self.shared.identity, view)
    }

    /// Evaluates a new view of the stored objects, if the informer runs.
    pub(crate) fn build_view(&self, view: Arc<dyn PreparedView>) {
        self.shared.build_view(view);
    }

    fn listener(&self, name: &str, options: &HandlerOptions) -> Arc<Listener> {
        let metrics = HandlerMetrics::new(&self.shared.identity, name);
        let name = metrics.name().to_owned();
        let observers = Arc::clone(&self.shared.observers);
        Arc::new(Listener::new(name, options.delivery, options.on_panic, metrics, observers))
    }

    fn add_listener(
        &self,
        listener: &Arc<Listener>,
        options: &HandlerOptions,
        runner: Option<HandlerRunner>,
    ) -> Result<(), Stopped> {
        if self.shared.add_listener(listener, options.resync, runner) {
            return Ok(());
        }
        Err(Stopped::new(self.name(), "the handler was not added"))
    }
}

#[cfg(feature = "client")]
impl<K> SharedInformer<K> {
    /// Returns the same informer, with objects decoded as `L`.
    pub(crate) fn cast<L>(self) -> SharedInformer<L> {
        SharedInformer { shared: self.shared, kind: PhantomData }
    }

    /// Returns `true` if the informer runs or can still be started.
    pub(crate) fn can_run(&self) -> bool {
        self.shared.can_run()
    }

    /// Returns `true` if the informer is [held](Self::hold): its holds start it.
    pub(crate) fn is_held(&self) -> bool {
        self.shared.is_held()
    }

    /// Sets a function that removes the informer from its factory. Called when the last hold is dropped.
    pub(crate) fn on_last_hold(&self, leave: impl Fn() + Send + Sync + 'static) {
        self.shared.set_leave_factory(Box::new(leave));
    }

    /// Spawns a task that ends when the informer stops. [`stopped`](Self::stopped) waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn_task(task);
    }
}

impl<K> Clone for SharedInformer<K> {
    fn clone(&self) -> Self {
        SharedInformer { shared: Arc::clone(&self.shared), kind: PhantomData }
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lifecycle = self.shared.lifecycle();
        f.debug_struct("SharedInformer")
            .field("name", &self.name())
            .field("phase", &lifecycle.phase)
            .field("has_synced", &lifecycle.synced)
            .field("observers", &self.shared.observers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
