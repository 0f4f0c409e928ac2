//! [`InformerOptions`]: the options of an informer, standalone or of a factory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "client")]
use evenkeel_core::Header;
use evenkeel_core::shard::{ShardKey, ShardRanges, ShardSelector};
use evenkeel_core::{Obj, ResourceInfo, Untyped};

use super::scopes::OnForbidden;
use crate::reflector::limits::ListLimits;
use crate::reflector::shards::Shards;
use crate::reflector::{Backoff, ErrorHandler, OnTransformError, ReflectorBuilder, ReflectorFailure, Transform};
use crate::source::BoxError;
use crate::store::Index;
use crate::{Object, ShardScope};

/// The queue between reflector and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueKind {
    /// Deltas in the order of the watch; a list replaces the contents of the store in one step. The default of client-go's
    /// informers since 1.36.
    #[default]
    Ordered,
    /// Deltas in the order of the watch; a list is applied object by object. Versions of lists and bookmarks do not reach the
    /// store, so that [`at_least`](crate::Indexer::at_least) may wait for an object of that version. The default of
    /// client-go's informers from 1.33 to 1.35.
    OrderedPerItem,
    /// Deltas by object: those that arrive while others are applied are applied together. This is client-go's `DeltaFIFO`, the
    /// default of its informers before 1.33. Versions of lists and bookmarks do not reach the store.
    Keyed,
}

/// Options of an informer: of a [standalone one](crate::SharedInformer::new), of one kind of a factory, or of all kinds.
///
/// An option that is set twice has the last value. Options of one kind override those of the factory. The defaults: no resync, the
/// ordered queue.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_cache::{Index, InformerOptions};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let options = InformerOptions::<Pod>::new()
///     .resync(Duration::from_secs(600))
///     .index(Index::by_object("app", |pod| pod.label("app").map(String::from)));
/// # drop(options);
/// ```
///
/// The source of a standalone informer decides which objects it lists, so these options have no selectors. In a factory, which
/// creates the sources, they are a `KindOptions` and have them:
///
/// ```compile_fail,E0599
/// # use evenkeel_cache::InformerOptions;
/// # use k8s_openapi::api::core::v1::Pod;
/// let options = InformerOptions::<Pod>::new().labels("app=web");
/// ```
#[must_use = "options have no effect until they are used"]
pub struct InformerOptions<K, S = ()> {
    pub(crate) settings: InformerSettings,
    /// What the source of a factory's informer lists; nothing for a standalone informer.
    pub(crate) selection: S,
    pub(crate) kind: PhantomData<fn() -> K>,
}

/// The options that do not depend on the source.
#[derive(Clone, Default)]
pub(crate) struct InformerSettings {
    pub(crate) name: Option<String>,
    pub(crate) resync: Option<Duration>,
    pub(crate) queue: Option<QueueKind>,
    pub(crate) indexes: Vec<Index<Untyped>>,
    pub(crate) transform: Option<Transform>,
    pub(crate) on_transform_error: Option<OnTransformError>,
    pub(crate) on_error: Option<ErrorHandler>,
    pub(crate) pack: Option<bool>,
    pub(crate) watch_list: Option<bool>,
    pub(crate) consistent_restart: Option<bool>,
    pub(crate) page_size: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) max_list_objects: Option<usize>,
    pub(crate) max_list_bytes: Option<usize>,
    pub(crate) check_interval: Option<Duration>,
    pub(crate) on_forbidden: Option<OnForbidden>,
    pub(crate) shards: Option<InformerShards>,
}

/// The places of an informer's objects.
#[derive(Clone, Debug)]
pub(crate) enum InformerShards {
    /// They never change.
    Fixed(ShardSelector),
    /// They follow a scope.
    Scope(ShardKey, ShardScope),
}

impl InformerShards {
    /// Returns whether an object of a kind is in the places of now.
    #[cfg(feature = "client")]
    pub(crate) fn matches(&self, resource: &ResourceInfo, object: &Header) -> bool {
        match self {
            InformerShards::Fixed(selector) => selector.matches(object),
            InformerShards::Scope(key, scope) => scope.ranges().contains(key.of_kind(resource).place_of(object)),
        }
    }

    /// Returns what is equal for informers of the same places.
    #[cfg(feature = "client")]
    pub(crate) fn identity(&self) -> ShardsIdentity {
        match self {
            InformerShards::Fixed(selector) => ShardsIdentity::Fixed(selector.clone()),
            InformerShards::Scope(key, scope) => ShardsIdentity::Scope(*key, scope.id()),
        }
    }
}

/// Identifies the places of an informer's objects.
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ShardsIdentity {
    Fixed(ShardSelector),
    /// The key, and the scope.
    Scope(ShardKey, u64),
}

impl<K: 'static> InformerOptions<K> {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K: 'static, S> InformerOptions<K, S> {
    /// Sets the name of the informer in logs and metrics. Default: the plural of its kind. If another informer of the same
    /// name and kind exists, metrics append a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Sets the resync period of handlers that have none. Zero, the default, disables resyncs. A resync makes no request.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Adds an index. Every informer has the one by namespace.
    pub fn index(mut self, index: Index<K>) -> Self {
        self.settings.indexes.push(index.cast());
        self
    }

    /// Sets the queue between reflector and store.
    pub fn queue(mut self, kind: QueueKind) -> Self {
        self.settings.queue = Some(kind);
        self
    }

    /// Sets a function that changes objects before they are stored: store and handlers see its result only. It runs once per
    /// state of an object, must not change names, and should depend on nothing but the object.
    pub fn transform<E: Into<BoxError>>(
        mut self,
        transform: impl Fn(Obj<K>) -> Result<Obj<K>, E> + Send + Sync + 'static,
    ) -> Self {
        let untyped = move |object: Object| transform(object.cast()).map(Obj::cast).map_err(Into::into);
        self.settings.transform = Some(Arc::new(untyped));
        self
    }

    /// Sets what happens to an object that cannot be transformed.
    pub fn on_transform_error(mut self, policy: OnTransformError) -> Self {
        self.settings.on_transform_error = Some(policy);
        self
    }

    /// Sets the function that receives every failure to list or to watch. Default: the log.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(handler));
        self
    }

    /// Sets whether stored objects are [packed](evenkeel_core::pack) into a fraction of their memory. Default: yes. Packing
    /// costs a few microseconds per received object, and about one per access to a payload.
    pub fn pack(mut self, pack: bool) -> Self {
        self.settings.pack = Some(pack);
        self
    }

    /// Sets whether the initial list is requested as a WatchList. Default: yes, with a list if the server does not support it.
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.settings.watch_list = Some(watch_list);
        self
    }

    /// Sets whether the first list is of the newest state. Default: no. A list may then come from the cache of a server that is behind,
    /// so that after a restart a program may read states that are older than those that it read before. A WatchList, the default
    /// where the server supports it, is of the newest state in any case.
    pub fn consistent_restart(mut self, consistent: bool) -> Self {
        self.settings.consistent_restart = Some(consistent);
        self
    }

    /// Sets the number of objects per page of a list. Default: as in client-go.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.settings.page_size = Some(objects);
        self
    }

    /// Sets the backoff after failures.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = Some(backoff);
        self
    }

    /// Sets the maximal number of objects of a list, over all its pages or initial events. Default: a million. A larger list
    /// fails and is retried with backoff; the store stays as it is.
    pub fn max_list_objects(mut self, objects: usize) -> Self {
        self.settings.max_list_objects = Some(objects);
        self
    }

    /// Sets the maximal bytes of the objects of a list as they are stored, over all its pages or initial events. Default: 2 GiB. A
    /// larger list fails and is retried with backoff; the store stays as it is.
    pub fn max_list_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_list_bytes = Some(bytes);
        self
    }

    /// Restricts the informer to objects of these places, by the hash of their uid or namespace. Default: all objects.
    ///
    /// Objects out of range are dropped before they are stored, and [counted](crate::metrics::OUT_OF_RANGE), so the store is the same
    /// with every server. A server with sharded lists and watches does not send them in the first place. One that refuses the
    /// selector receives requests without it for ten minutes.
    ///
    /// ```
    /// use evenkeel_cache::InformerOptions;
    /// use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// // The first of three replicas.
    /// let range = ShardRange::FULL.part(0, 3).unwrap();
    /// let options = InformerOptions::<Pod>::new().shards(ShardSelector::new(ShardField::Uid, range));
    /// # drop(options);
    /// ```
    pub fn shards(mut self, selector: ShardSelector) -> Self {
        self.settings.shards = Some(InformerShards::Fixed(selector));
        self
    }

    /// Has the informer follow the places of a scope, by a key of its objects. It replaces [`shards`](Self::shards). Default: all objects.
    ///
    /// For the kind Namespace, [`ShardKey::Namespace`] stands for the name. The server filters by namespaces and uids; by other keys the
    /// informer does, and receives all objects. The informer [has synced](crate::SharedInformer::has_synced) when its store
    /// [covers](crate::SharedInformer::covered) the places that the scope has then: with none, at once.
    ///
    /// Lists are of the newest state, as with [`consistent_restart`](Self::consistent_restart). A [transform](Self::transform) must keep uid,
    /// resource version and owners. An informer of several [namespaces](crate::NamespaceSet) cannot have a scope: it does not sync, and
    /// says why.
    pub fn shard_scope(mut self, key: ShardKey, scope: &ShardScope) -> Self {
        self.settings.shards = Some(InformerShards::Scope(key, scope.clone()));
        self
    }

    /// Sets how often the informer [checks](crate::SharedInformer::check_consistency) its store against a list of exactly its
    /// version. Zero, the default, disables the checks. Each costs the server a list; a random tenth of the interval is added, so
    /// that informers do not check together.
    pub fn check_consistency(mut self, interval: Duration) -> Self {
        self.settings.check_interval = Some(interval);
        self
    }
}

impl InformerSettings {
    /// Returns the limits of a list.
    pub(super) fn list_limits(&self) -> ListLimits {
        let defaults = ListLimits::default();
        ListLimits {
            objects: self.max_list_objects.unwrap_or(defaults.objects),
            bytes: self.max_list_bytes.unwrap_or(defaults.bytes),
        }
    }

    /// Returns the fixed places of the informer's objects, for all its reflectors.
    pub(super) fn shared_shards(&self, info: &ResourceInfo) -> Option<Arc<Shards>> {
        match &self.shards {
            Some(InformerShards::Fixed(selector)) => Some(Arc::new(Shards::new(selector.clone(), info))),
            _ => None,
        }
    }

    /// Returns the places that an informer has for ever, unless a scope changes them.
    pub(super) fn selected(&self) -> ShardRanges {
        match &self.shards {
            Some(InformerShards::Fixed(selector)) => selector.ranges().clone(),
            _ => ShardRanges::full(),
        }
    }

    /// Applies the options of the reflector.
    pub(super) fn reflector(&self, mut reflector: ReflectorBuilder) -> ReflectorBuilder {
        if let Some(transform) = self.transform.clone() {
            reflector = reflector.transform(move |object| transform(object));
        }
        if let Some(policy) = self.on_transform_error {
            reflector = reflector.on_transform_error(policy);
        }
        if let Some(handler) = self.on_error.clone() {
            reflector = reflector.on_error(move |failure| handler(failure));
        }
        if let Some(pack) = self.pack {
            reflector = reflector.pack(pack);
        }
        if let Some(watch_list) = self.watch_list {
            reflector = reflector.watch_list(watch_list);
        }
        if let Some(consistent) = self.consistent_restart {
            reflector = reflector.consistent_restart(consistent);
        }
        if let Some(objects) = self.page_size {
            reflector = reflector.page_size(objects);
        }
        if let Some(backoff) = self.backoff {
            reflector = reflector.backoff(backoff);
        }
        let ListLimits { objects, bytes } = self.list_limits();
        reflector.max_list_objects(objects).max_list_bytes(bytes)
    }
}

impl<K, S: Default> Default for InformerOptions<K, S> {
    fn default() -> Self {
        InformerOptions { settings: InformerSettings::default(), selection: S::default(), kind: PhantomData }
    }
}

impl<K, S: Clone> Clone for InformerOptions<K, S> {
    fn clone(&self) -> Self {
        InformerOptions { settings: self.settings.clone(), selection: self.selection.clone(), kind: PhantomData }
    }
}

impl<K, S: fmt::Debug> fmt::Debug for InformerOptions<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InformerSettings { name, resync, queue, .. } = &self.settings;
        f.debug_struct("InformerOptions")
            .field("name", name)
            .field("resync", resync)
            .field("queue", queue)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}
