//! The API server without I/O: a request in, a response out. It opens no sockets, starts no threads, and takes time and
//! randomness from its [`Env`].
//!
//! | where | what |
//! |---|---|
//! | `dispatch` | routes a request |
//! | `authorize`, `rbac` | who may do what |
//! | `verbs` | one file per verb: create, get, list, update, patch, apply, delete, watch |
//! | `admission` | what changes or refuses a write: the plugins of kube-apiserver |
//! | `strategies` | what kinds add to the verbs: prepare, validate, after |
//! | `subresources` | status, scale, binding, eviction, resize, log, exec, attach, token |
//! | `controllers` | namespaces, definitions, default ServiceAccounts, quotas, protection of volumes, expiry of events, garbage |
//! | `bootstrap` | the objects that a server has from its start |
//! | `token_authentication` | the users of service-account tokens, for requests and TokenReviews |
//! | `weight` | which requests are expensive and run aside |
//! | `request`, `options`, `decode`, `filter` | the parts of a request |
//! | `view`, `response` | the parts of a response |

pub(crate) mod admission;
mod authorize;
pub(crate) mod bootstrap;
mod compiled_objects;
mod continue_token;
mod controllers;
mod convert;
mod decode;
mod dispatch;
mod filter;
mod indent;
mod object;
mod options;
mod rbac;
mod request;
mod request_error;
mod response;
mod service_addresses;
mod shard_filter;
pub(crate) mod strategies;
mod subresources;
mod target;
mod timers;
mod token_authentication;
mod verbs;
mod view;
mod webhook_client;
mod weight;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{Reason, Status};

use self::admission::policies::AdmissionPolicies;
use self::admission::resource_quota::QuotaIndex;
use self::admission::webhooks::AdmissionWebhooks;
pub(crate) use self::admission::webhooks::WebhookCounts;
pub(crate) use self::admission::webhooks::configuration::{Webhook, WebhookKind};
use self::admission::{AdmissionIndexes, AdmissionSwitches};
pub(crate) use self::authorize::is_authenticated;
use self::bootstrap::{ServerFacts, StoreOrigin};
use self::controllers::protection::Protection;
pub(crate) use self::convert::webhook::{ConversionWebhook, Converter};
use self::rbac::{AggregationTimer, RbacIndex};
use self::service_addresses::ServiceAddresses;
use self::timers::TimerWheel;
pub(crate) use self::token_authentication::ISSUER;
pub(crate) use self::view::encode;
pub(crate) use self::webhook_client::ServiceRoutes;
use self::weight::SlowResources;
use crate::authorization::{AccessAttributes, AccessDecision, Forbidden};
use crate::data_dir::HistoryAfterRestart;
use crate::env::Env;
use crate::exec::ProcessHandlers;
use crate::faults::StoreControl;
use crate::http_types::{ApiRequest, HandlerCall, HandlerOutcome, User};
use crate::listener::Handler;
use crate::listener::auth::Tokens;
use crate::listener::request_info::RequestInfo;
use crate::logs::PodLogs;
use crate::memory::Memory;
use crate::metrics::{ResourceObjects, ServedResource, StoreFacts};
use crate::openapi::Descriptions;
use crate::registry::{Registry, deprecation_warning};
use crate::store::{History, Image, OpenedStore, Store, StoreStats, WriteRefusal};
use crate::token_keys::TokenKeys;
use crate::version::ServerVersion;

/// When a controller inside the server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerTiming {
    /// Within the request that causes the work: the work is done when the response arrives.
    #[default]
    Immediate,
    /// This long after the request.
    Delayed(Duration),
    /// Never, as on a server without a controller manager.
    Off,
}

/// The objects, the history and the served custom resources of a server at one moment.
///
/// Cloning is cheap: the objects are shared with the server that the snapshot was taken from. Make an expensive fixture
/// once, then start a server from it for each test ([`Builder::snapshot`](crate::Builder::snapshot)).
#[derive(Clone)]
pub struct Snapshot {
    image: Image,
    registry: Registry,
}

#[cfg(test)]
impl Snapshot {
    /// Returns the snapshot of an empty server.
    pub(crate) fn empty() -> Self {
        Snapshot { image: Store::new(History::default()).image(), registry: Registry::builtin() }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The settings of an engine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) history: History,
    /// When the namespace controller runs.
    pub(crate) namespaces: ControllerTiming,
    /// When the controller of default ServiceAccounts runs.
    pub(crate) service_accounts: ControllerTiming,
    /// The server starts with the objects of `bootstrap`.
    pub(crate) bootstrap: bool,
    /// When the garbage collector runs.
    pub(crate) garbage_collector: ControllerTiming,
    /// When the rules of aggregated ClusterRoles are written.
    pub(crate) role_aggregation: ControllerTiming,
    /// Whether roles and bindings decide what users may do.
    pub(crate) rbac: bool,
    /// Whether lists, watches and delete-collections honour `shardSelector`.
    pub(crate) sharded_lists: bool,
    /// Which admission plugins run.
    pub(crate) admission: AdmissionSwitches,
    /// When the usage of quotas is published.
    pub(crate) quotas: ControllerTiming,
    /// When the finalizers of unused volumes and claims are removed.
    pub(crate) protection: ControllerTiming,
    /// The time to live of events; `None` keeps them.
    pub(crate) event_ttl: Option<Duration>,
    /// The release to behave like.
    pub(crate) version: ServerVersion,
    /// The snapshot to start from instead of an empty server.
    pub(crate) snapshot: Option<Snapshot>,
    /// The least revision to start at. A store with content continues at its own.
    pub(crate) first_revision: u64,
    /// The content of a backup to start from.
    pub(crate) backup: Option<Image>,
    /// The store of a data directory.
    pub(crate) opened: Option<Arc<OpenedStore>>,
    /// What is served of its history.
    pub(crate) history_after_restart: HistoryAfterRestart,
    /// The keys of service-account tokens.
    pub(crate) token_keys: Arc<TokenKeys>,
    /// The server uses TLS: its own URLs have `https`.
    pub(crate) tls: bool,
    /// The static tokens, which a TokenReview recognises.
    pub(crate) static_tokens: Tokens,
    /// The handlers of exec and attach.
    pub(crate) processes: ProcessHandlers,
    /// The functions that review writes.
    pub(crate) admission_functions: Vec<(WebhookKind, Arc<Webhook>)>,
    /// The functions that convert custom resources.
    pub(crate) converters: Vec<Converter>,
    /// Where the Services of webhooks are reached.
    pub(crate) service_routes: ServiceRoutes,
    /// The memory budget, which the listener shares.
    pub(crate) memory: Arc<Memory>,
    /// The descriptions of built-in kinds in OpenAPI documents.
    pub(crate) descriptions: Option<Arc<Descriptions>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            history: History::default(),
            namespaces: ControllerTiming::Immediate,
            service_accounts: ControllerTiming::Immediate,
            bootstrap: true,
            garbage_collector: ControllerTiming::Immediate,
            role_aggregation: ControllerTiming::Immediate,
            rbac: false,
            sharded_lists: false,
            admission: AdmissionSwitches::default(),
            quotas: ControllerTiming::Immediate,
            protection: ControllerTiming::Immediate,
            event_ttl: Some(Duration::from_secs(3600)),
            version: ServerVersion::default(),
            snapshot: None,
            first_revision: 0,
            backup: None,
            opened: None,
            history_after_restart: HistoryAfterRestart::Keep,
            token_keys: Arc::default(),
            tls: false,
            static_tokens: Tokens::default(),
            processes: ProcessHandlers::default(),
            admission_functions: Vec::new(),
            converters: Vec::new(),
            service_routes: ServiceRoutes::default(),
            memory: Arc::default(),
            descriptions: None,
        }
    }
}

/// The API server without I/O. See the documentation of the module.
pub(crate) struct ApiEngine {
    store: Arc<Store>,
    registry: RwLock<Registry>,
    env: Arc<dyn Env>,
    settings: Settings,
    origin: StoreOrigin,
    timers: Arc<TimerWheel>,
    /// Held shared by writes of definitions until they are in force, and exclusively while a snapshot is taken or
    /// restored: store and registry of a snapshot must agree.
    definition_writes: RwLock<()>,
    /// Held while a definition is brought into force, so that names are accepted one definition at a time.
    definitions: Mutex<()>,
    /// Held from the assignment of addresses to a Service until its commit, so that no address is assigned twice.
    addresses: Mutex<()>,
    /// The addresses of all Services.
    service_addresses: Mutex<ServiceAddresses>,
    /// What admission plugins look up on many writes.
    admission: AdmissionIndexes,
    /// The usage of quotas. Held from the check of a write to its commit, so that parallel writes never exceed a quota.
    quotas: Mutex<QuotaIndex>,
    /// When a delayed quota controller runs next.
    next_quota_pass: Mutex<Option<Duration>>,
    /// The deleted volumes and claims that are still used.
    protection: Mutex<Protection>,
    policies: AdmissionPolicies,
    /// Held shared by creates while they commit, and exclusively while a namespace or a definition is marked for deletion: every object
    /// that was created before the mark is in the store when the controller empties it.
    creates: RwLock<()>,
    /// Held while a namespace is swept. Two concurrent sweeps could each take the objects that the other one deletes for
    /// held.
    sweeping: Mutex<()>,
    /// Terminating namespaces by the time of their next sweep.
    sweeps: Mutex<BTreeSet<(Duration, String)>>,
    /// The sweep that the tick has started.
    current_sweep: Mutex<Option<controllers::NamespaceSweep>>,
    /// Namespaces by the time at which they get their default ServiceAccount.
    due_accounts: Mutex<BTreeSet<(Duration, String)>>,
    /// Held during a step of the garbage collector: while it is, what is not in its queue may be under work.
    collecting: Mutex<()>,
    /// Which objects depend on which.
    owner_graph: Mutex<controllers::OwnerGraph>,
    /// Kinds were added or removed since the garbage collector last looked.
    kinds_changed: AtomicBool,
    /// All roles and bindings.
    rbac: RwLock<RbacIndex>,
    /// When aggregated ClusterRoles are due.
    aggregation: AggregationTimer,
    /// The time of the next expiry of events.
    next_expiry: Mutex<Duration>,
    /// The custom resources whose writes are expensive.
    slow: SlowResources,
    /// The logs of containers.
    logs: PodLogs,
    webhooks: AdmissionWebhooks,
}

impl ApiEngine {
    /// Returns an engine with the initial namespaces or the objects of a snapshot. Fresh engines with the same first
    /// revision are at the same revision (STO-1).
    pub(crate) fn new(mut settings: Settings, env: Arc<dyn Env>) -> Arc<Self> {
        let (snapshot, backup) = (settings.snapshot.take(), settings.backup.take());
        settings.history.bytes = settings.history.bytes.min(settings.memory.history_limit());
        let opened = settings.opened.take();
        let has_content = opened.as_ref().is_some_and(|opened| !opened.empty);
        let origin = match (&snapshot, &backup) {
            _ if has_content => StoreOrigin::Storage,
            (_, Some(_)) => StoreOrigin::Storage,
            (Some(_), None) => StoreOrigin::Snapshot,
            (None, None) => StoreOrigin::Fresh,
        };
        let store = match opened {
            Some(opened) => Arc::clone(&opened.store),
            None => Arc::new(Store::new(settings.history).with_memory(Arc::clone(&settings.memory))),
        };
        let engine = Arc::new(ApiEngine {
            webhooks: AdmissionWebhooks::new(&settings.admission_functions),
            logs: PodLogs::new(Arc::clone(&env)),
            store,
            registry: RwLock::new(Registry::builtin().with_descriptions(settings.descriptions.clone())),
            env,
            settings,
            origin,
            timers: Arc::default(),
            definition_writes: RwLock::default(),
            definitions: Mutex::default(),
            addresses: Mutex::default(),
            service_addresses: Mutex::default(),
            admission: AdmissionIndexes::default(),
            quotas: Mutex::default(),
            next_quota_pass: Mutex::default(),
            protection: Mutex::default(),
            policies: AdmissionPolicies::new(),
            creates: RwLock::default(),
            sweeping: Mutex::default(),
            sweeps: Mutex::default(),
            current_sweep: Mutex::default(),
            due_accounts: Mutex::default(),
            collecting: Mutex::default(),
            owner_graph: Mutex::default(),
            kinds_changed: AtomicBool::default(),
            rbac: RwLock::default(),
            aggregation: AggregationTimer::default(),
            next_expiry: Mutex::default(),
            slow: SlowResources::default(),
        });
        match (snapshot, backup) {
            _ if has_content => {
                if engine.settings.history_after_restart == HistoryAfterRestart::Drop {
                    engine.store.drop_history();
                }
                engine.resume();
            }
            (_, Some(backup)) => {
                engine.store.load(&backup);
                engine.store.raise(engine.settings.first_revision);
                engine.resume();
            }
            (Some(snapshot), None) => {
                engine.restore_with(&snapshot, Store::load);
                engine.store.raise(engine.settings.first_revision);
            }
            (None, None) => {
                engine.store.raise(engine.settings.first_revision);
                engine.add_initial_namespaces();
            }
        }
        engine
    }

    /// Serves the definitions of the store, and continues what the last process had started.
    fn resume(self: &Arc<Self>) {
        self.sync_all_definitions();
        self.resume_sweeps();
        self.resume_collection();
    }

    fn restore_with(self: &Arc<Self>, snapshot: &Snapshot, load: impl FnOnce(&Store, &Image)) {
        {
            let _no_definition_writes = self.lock_definitions();
            let descriptions = self.settings.descriptions.clone();
            self.change_registry(|_| snapshot.registry.clone().with_descriptions(descriptions));
            load(&self.store, &snapshot.image);
        }
        // A snapshot does not contain scheduled work.
        self.resume_sweeps();
        self.resume_collection();
    }

    /// Locks out writes of definitions and their coming into force.
    fn lock_definitions(&self) -> (RwLockWriteGuard<'_, ()>, MutexGuard<'_, ()>) {
        let writes = self.definition_writes.write().unwrap_or_else(PoisonError::into_inner);
        (writes, self.definitions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether roles and bindings decide what users may do.
    fn evaluates_rbac(&self) -> bool {
        self.settings.rbac
    }

    /// Returns the resources that are served now.
    fn registry(&self) -> Registry {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_registry(&self, change: impl FnOnce(&Registry) -> Registry) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        *registry = change(&registry);
        let custom = registry.resources().filter_map(|resource| resource.custom.as_ref());
        self.settings.memory.set_definitions(custom.map(|custom| custom.memory).sum());
        self.kinds_changed.store(true, Ordering::Relaxed);
    }
}

impl Handler for Arc<ApiEngine> {
    fn handle(&self, request: &Arc<ApiRequest>, call: HandlerCall) -> HandlerOutcome {
        self.dispatch(request, call)
    }

    fn authorize(&self, access: &AccessAttributes<'_>) -> AccessDecision {
        ApiEngine::authorize(self, access)
    }

    fn authorize_request(&self, user: &User, info: &RequestInfo<'_>, query: Option<&str>) -> Result<String, Forbidden> {
        ApiEngine::authorize_request(self, user, info, query)
    }

    fn version(&self) -> ServerVersion {
        self.settings.version
    }

    fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.store.poll_revision(revision, cx)
    }

    fn tick(&self) {
        let now = self.env.monotonic();
        self.store.tick(now);
        self.timers.turn(now);
        if self.store.check_writable().is_ok() {
            self.expire_events(now);
            self.run_protection_controller(now);
            self.run_quota_controller(now);
        }
    }

    fn run_due_work(&self) -> bool {
        let now = self.env.monotonic();
        self.store.check_writable().is_ok()
            && (self.add_due_service_accounts(now)
                || self.run_due_aggregation(now)
                || self.run_due_sweeps(now)
                || self.run_due_collection())
    }

    fn unsynced_revision(&self) -> Option<u64> {
        self.store.unsynced_revision()
    }

    fn poll_durable(&self, revision: u64, writes: bool, cx: &mut Context<'_>) -> Poll<Result<(), Box<Status>>> {
        self.store.poll_durable(revision, writes, cx).map_err(|refusal| Box::new(storage_status(&refusal)))
    }

    fn is_durable(&self) -> bool {
        self.store.is_durable()
    }

    fn backup(&self, path: &Path) -> io::Result<u64> {
        self.store.backup(path)
    }

    fn close_storage(&self) {
        self.store.close_log();
    }

    fn close_watches(&self) {
        self.store.close_watches();
        self.logs.close();
    }

    fn logs(&self) -> PodLogs {
        self.logs.clone()
    }

    fn user_of_token(&self, token: &[u8]) -> Option<User> {
        ApiEngine::user_of_token(self, token)
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn served(&self, info: &RequestInfo<'_>) -> Option<ServedResource> {
        let registry = self.registry();
        let resource = registry.lookup(info.group, info.version, info.resource)?;
        let known = info.subresource.is_empty() || resource.subresource(info.subresource).is_some();
        let deprecated = deprecation_warning(resource, self.settings.version).is_some();
        known.then_some(ServedResource { deprecated })
    }

    fn store_facts(&self) -> StoreFacts {
        let mut seen = BTreeSet::new();
        let registry = self.registry();
        let stored = registry.resources().filter(|resource| seen.insert(&*resource.storage));
        let objects = stored.filter_map(|resource| {
            let objects = self.store.live(&resource.storage)?;
            Some(ResourceObjects { group: resource.group.clone(), resource: resource.plural.clone(), objects })
        });
        StoreFacts {
            objects: objects.collect(),
            stats: self.store.stats(),
            history_events: self.settings.history.events,
            history_bytes: self.settings.history.bytes,
            memory: self.settings.memory.stats(),
            journal: self.store.journal_stats(),
            webhooks: self.webhooks.metrics.counts(),
            sharded_lists: self.settings.sharded_lists,
        }
    }

    fn bootstrap(&self, facts: &ServerFacts) {
        ApiEngine::bootstrap(self, facts);
    }

    fn snapshot(&self) -> Snapshot {
        let _no_definition_writes = self.lock_definitions();
        Snapshot { image: self.store.image(), registry: self.registry() }
    }

    fn restore(&self, snapshot: &Snapshot) {
        self.restore_with(snapshot, Store::replace);
    }
}

impl StoreControl for Arc<ApiEngine> {
    fn compact_now(&self) {
        self.store.compact(self.store.revision());
    }

    fn compact(&self, revision: u64) {
        self.store.compact(revision);
    }

    fn lag_replica(&self, revisions: u64) {
        self.store.set_lag(revisions);
    }

    fn freeze_replica(&self, revision: Option<u64>) {
        self.store.freeze(revision);
    }

    fn reset_history(&self) {
        self.store.compact(self.store.revision());
        self.store.close_watches();
    }
}

/// Returns the error for a write that the log cannot take (DUR-011).
fn storage_status(refusal: &WriteRefusal) -> Status {
    match refusal {
        WriteRefusal::ReadOnly(reason) => {
            Status::failure(503, Reason::SERVICE_UNAVAILABLE, format!("storage is read-only: {reason}"))
        }
        WriteRefusal::Behind => {
            let message = "the disk is behind: too many writes wait for it";
            let mut status = Status::failure(429, Reason::TOO_MANY_REQUESTS, message);
            status.details.get_or_insert_default().retry_after_seconds = 1;
            status
        }
    }
}

/// Returns the error for a feature that this server does not have.
fn not_implemented(what: &str) -> Status {
    Status::failure(501, Reason::from("NotImplemented"), format!("this server does not support {what} yet"))
}
