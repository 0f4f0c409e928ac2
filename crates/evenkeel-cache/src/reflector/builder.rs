//! [`ReflectorBuilder`]: the options of a reflector.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ResourceInfo;
use evenkeel_core::pack::Packer;
use evenkeel_core::shard::{ShardKey, ShardSelector};

use super::Reflector;
use super::backoff::Backoff;
use super::driver::{BeforeWatch, Driver};
use super::error::{ErrorHandler, ReflectorFailure, log_failure};
use super::ingest::{Ingest, OnTransformError, Transform};
use super::limits::ListLimits;
use super::machine::{MIN_WATCH_TIMEOUT, ReflectorMachine, ReflectorSettings};
use super::shards::{RequestShards, Shards};
use super::status::ReflectorStatus;
use crate::Object;
use crate::metrics::ReflectorMetrics;
use crate::source::{BoxError, ListerWatcher};

/// The default of [`ReflectorBuilder::silence`].
const SILENCE: Duration = Duration::from_secs(180);

/// The options of a [`Reflector`]. The defaults are client-go's.
pub struct ReflectorBuilder {
    source: Arc<dyn ListerWatcher>,
    resource: Arc<ResourceInfo>,
    name: Option<String>,
    settings: ReflectorSettings,
    transform: Option<Transform>,
    on_transform_error: OnTransformError,
    on_error: ErrorHandler,
    check_consistency: bool,
    pack: bool,
    limits: ListLimits,
    shards: Option<Arc<Shards>>,
    before_watch: Option<BeforeWatch>,
    kept_key: Option<ShardKey>,
}

impl ReflectorBuilder {
    pub(super) fn new(source: Arc<dyn ListerWatcher>, resource: Arc<ResourceInfo>) -> Self {
        let settings = ReflectorSettings {
            resync_period: Duration::ZERO,
            page_size: 0,
            watch_list: true,
            consistent_restart: false,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            backoff: Backoff::default(),
            internal_error_retry: Duration::ZERO,
            silence: Some(SILENCE),
        };
        ReflectorBuilder {
            source,
            resource,
            name: None,
            settings,
            transform: None,
            on_transform_error: OnTransformError::default(),
            on_error: Arc::new(log_failure),
            check_consistency: false,
            pack: true,
            limits: ListLimits::default(),
            shards: None,
            before_watch: None,
            kept_key: None,
        }
    }

    /// Sets the name in logs, failures and metrics. The default is the resource: `pods`, `deployments.apps`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how often the reflector sends a [resync](crate::delta::Delta::SyncAll) while it watches. The period counts from the
    /// end of the last resync, and restarts with each list. Zero, the default, is never.
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.settings.resync_period = period;
        self
    }

    /// Sets the page size of lists.
    ///
    /// The default is 500, except for lists that the server can serve from its watch cache: those are requested without pages,
    /// unless the server has served one in pages before.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.settings.page_size = objects;
        self
    }

    /// Sets the maximal number of objects of a list, over all pages or initial events. The default is a million. A larger list
    /// fails and is retried with backoff; the store stays as it is.
    pub fn max_list_objects(mut self, objects: usize) -> Self {
        self.limits.objects = objects;
        self
    }

    /// Sets the maximal bytes of the objects of a list as they are stored, over all pages or initial events. The default is 2 GiB.
    /// A larger list fails and is retried with backoff; the store stays as it is.
    pub fn max_list_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// Sets whether the reflector tries a WatchList before a list. The default is true, unless the source does not
    /// [support](ListerWatcher::supports_watch_list) it.
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.settings.watch_list = watch_list;
        self
    }

    /// Sets whether the first list is of the newest state. The default is false: a list may come from the cache of a server that is
    /// behind, so that after a restart a program may read states that are older than those that it read before. A WatchList is of the
    /// newest state in any case.
    ///
    /// The server reads such a list from its storage, in pages.
    pub fn consistent_restart(mut self, consistent: bool) -> Self {
        self.settings.consistent_restart = consistent;
        self
    }

    /// Sets the shortest watch timeout that is requested; the longest is twice that. The default and minimum is five minutes.
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.settings.min_watch_timeout = timeout;
        self
    }

    /// Sets the backoff after failures.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Sets for how long a watch that fails with an internal error of the server is retried with backoff before a relist. Zero,
    /// the default, relists at once.
    pub fn internal_error_retry(mut self, window: Duration) -> Self {
        self.settings.internal_error_retry = window;
        self
    }

    /// Sets the shortest silence after which a watch may count as dead and is requested again at the same version. The default is
    /// three minutes, the minimum ten seconds; `None` for never.
    ///
    /// Only the silence of a server that sends bookmarks counts, and only when it lasts four times the usual bookmark interval.
    /// In any case, a watch that the server has not closed half a minute after its timeout counts as dead.
    pub fn silence(mut self, shortest: Option<Duration>) -> Self {
        self.settings.silence = shortest;
        self
    }

    /// Sets the function that changes each object before it is stored. See [`Transform`].
    pub fn transform(mut self, transform: impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Sets whether objects are stored [packed](evenkeel_core::pack), in a fraction of their memory. The default is true. Packing
    /// costs a few microseconds per received object, and about one per access to a payload.
    pub fn pack(mut self, pack: bool) -> Self {
        self.pack = pack;
        self
    }

    /// Sets what happens to an object that cannot be transformed.
    pub fn on_transform_error(mut self, policy: OnTransformError) -> Self {
        self.on_transform_error = policy;
        self
    }

    /// Sets the handler of failures, instead of [the log](log_failure). The reflector's task calls it: it must not block.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(handler);
        self
    }

    /// Adds an observer of failures, called before the [handler](Self::on_error).
    pub(crate) fn observe_errors(mut self, observer: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        let handler = self.on_error;
        self.on_error = Arc::new(move |failure| {
            observer(failure);
            handler(failure);
        });
        self
    }

    /// Sets the places of the objects. Requests have the selector, and objects out of range are dropped before they are packed, whether
    /// the source selects by place or not.
    pub fn shards(self, selector: ShardSelector) -> Self {
        let shards = Arc::new(Shards::new(selector, &self.resource));
        self.shared_shards(Some(shards))
    }

    /// Sets the places of the objects, which other reflectors share.
    pub(crate) fn shared_shards(mut self, shards: Option<Arc<Shards>>) -> Self {
        self.shards = shards;
        self
    }

    /// Sets a function that is called before each watch that continues at a version.
    pub(crate) fn before_watch(mut self, before_watch: BeforeWatch) -> Self {
        self.before_watch = Some(before_watch);
        self
    }

    /// Sets whether the stored objects move between reflectors by their place, so that a transform must not change it.
    pub(crate) fn keep_places(mut self, key: ShardKey) -> Self {
        self.kept_key = Some(key);
        self
    }

    /// Sets whether the initial events of each WatchList are compared with a list of the same version. A difference is reported to
    /// the [handler](Self::on_error). This is for tests of servers: it costs a list each time.
    pub fn check_consistency(mut self, check: bool) -> Self {
        self.check_consistency = check;
        self
    }

    /// Returns the reflector. It does nothing until it is run.
    pub fn build(self) -> Reflector {
        let name: Arc<str> = match self.name {
            Some(name) => name.into(),
            None => evenkeel_core::status::qualified(self.resource.group(), self.resource.plural()).into(),
        };
        let mut settings = self.settings;
        settings.watch_list &= self.source.supports_watch_list();
        let ingest = Ingest {
            resource: self.resource,
            is_metadata_only: self.source.is_metadata_only(),
            transform: self.transform,
            kept_key: self.kept_key,
            on_transform_error: self.on_transform_error,
            packer: self.pack.then(Packer::default),
        };
        Reflector {
            driver: Driver {
                metrics: ReflectorMetrics::new(&name),
                source: self.source,
                name,
                ingest,
                machine: ReflectorMachine::new(settings),
                on_error: self.on_error,
                status: ReflectorStatus::default(),
                random: fastrand::f64,
                check_consistency: self.check_consistency,
                consistency_check: None,
                listed: Vec::new(),
                received_objects: 0,
                listed_bytes: 0,
                limits: self.limits,
                shards: self.shards,
                before_watch: self.before_watch,
                request_shards: RequestShards::default(),
                has_dropped_last: false,
                list_started: None,
                long_list: None,
                is_closed: false,
            },
        }
    }
}

impl std::fmt::Debug for ReflectorBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReflectorBuilder")
            .field("name", &self.name)
            .field("resource", &self.resource)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
