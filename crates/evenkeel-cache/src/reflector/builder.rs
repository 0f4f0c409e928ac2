//! [`ReflectorBuilder`]: how a reflector is to be.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::ResourceInfo;
use evenkeel_core::pack::Packer;

use super::Reflector;
use super::backoff::Backoff;
use super::driver::Driver;
use super::error::{ErrorHandler, ReflectorFailure, log_failure};
use super::ingest::{Ingest, OnTransformError, Transform};
use super::machine::{MIN_WATCH_TIMEOUT, ReflectorMachine, ReflectorSettings};
use super::status::ReflectorStatus;
use crate::Object;
use crate::metrics::ReflectorMetrics;
use crate::source::{BoxError, ListerWatcher};

/// The shortest silence after which a watch may count as dead, unless said otherwise.
const SILENCE: Duration = Duration::from_secs(180);

/// How a [`Reflector`] is to be. What is not said is as in client-go.
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
}

impl ReflectorBuilder {
    pub(super) fn new(source: Arc<dyn ListerWatcher>, resource: Arc<ResourceInfo>) -> Self {
        let settings = ReflectorSettings {
            resync_period: Duration::ZERO,
            page_size: 0,
            watch_list: true,
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
        }
    }

    /// What it is called in logs, failures and metrics. Without this it is called after its resource: `pods`,
    /// `deployments.apps`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often the store is told to [resync](crate::delta::Delta::SyncAll) while the reflector watches. The
    /// period is measured from the end of the resync before, and anew after each round begins. Zero, which is the default,
    /// is never.
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.settings.resync_period = period;
        self
    }

    /// How many objects are asked for at once.
    ///
    /// Without this it is 500, except where the server has everything at hand anyway: when a list that need not be the
    /// newest is asked for, it is all of them, unless the server has shown that it hands those out in pages too.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.settings.page_size = objects;
        self
    }

    /// Whether a watch that begins with all objects is tried before a list is made. It is, unless this says no or the source
    /// [cannot do that](ListerWatcher::supports_watch_list).
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.settings.watch_list = watch_list;
        self
    }

    /// The shortest time that the server is asked to keep a watch open; the longest is twice that. Less than five minutes,
    /// which is the default, are five minutes.
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.settings.min_watch_timeout = timeout;
        self
    }

    /// How long it waits after failures.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// For how long a watch that fails with an internal error of the server is tried again, with growing waits, before all
    /// objects are asked for again. Zero, which is the default, is not at all.
    pub fn internal_error_retry(mut self, window: Duration) -> Self {
        self.settings.internal_error_retry = window;
        self
    }

    /// The shortest silence after which a watch may count as dead, and is asked for again from where it was; three minutes
    /// unless said otherwise, and ten seconds at least. `None` if silence shall never count.
    ///
    /// Only the silence of a server that sends bookmarks counts, and only when it has lasted four times as long as its
    /// bookmarks are usually apart. In any case, a watch that the server does not end half a minute after it was to end it
    /// counts as dead.
    pub fn silence(mut self, shortest: Option<Duration>) -> Self {
        self.settings.silence = shortest;
        self
    }

    /// Changes each object before it is stored. See [`Transform`].
    pub fn transform(mut self, transform: impl Fn(Object) -> Result<Object, BoxError> + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Whether objects rest [packed](evenkeel_core::pack), in a fraction of their memory; they do, unless this says no. It
    /// costs a few microseconds per object that comes, and about one each time a payload is looked at.
    pub fn pack(mut self, pack: bool) -> Self {
        self.pack = pack;
        self
    }

    /// What happens to an object that cannot be transformed.
    pub fn on_transform_error(mut self, policy: OnTransformError) -> Self {
        self.on_transform_error = policy;
        self
    }

    /// Who hears of failures, instead of [the log](log_failure). Called by the reflector's own task: it must not block.
    pub fn on_error(mut self, handler: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(handler);
        self
    }

    /// Who hears of failures too, before the [handler](Self::on_error).
    pub(crate) fn observe_errors(mut self, observer: impl Fn(&ReflectorFailure) + Send + Sync + 'static) -> Self {
        let handler = self.on_error;
        self.on_error = Arc::new(move |failure| {
            observer(failure);
            handler(failure);
        });
        self
    }

    /// Whether all objects that a watch began with are compared with a list of the same version, and a difference is told
    /// to the [handler](Self::on_error). This is for tests of servers: it costs a list each time.
    pub fn check_consistency(mut self, check: bool) -> Self {
        self.check_consistency = check;
        self
    }

    /// The reflector. It does nothing before it is run.
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
                checking: None,
                listed: Vec::new(),
                list_began: None,
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
