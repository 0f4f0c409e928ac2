//! The server without its fronts: a call in, an answer out. No sockets, no threads, no clock and no chance of its own.

mod accounts;
mod apply;
mod convert;
mod decode;
mod definitions;
mod delete;
mod dispatch;
mod filter;
mod indent;
mod logs;
mod namespaces;
mod object;
mod options;
mod pods;
mod protobuf_list;
mod read;
mod reply;
mod reviews;
mod scale;
mod services;
mod timers;
mod token;
mod view;
mod watch;
mod write;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::json::JsonValue;
use evenkeel_core::{Reason, Status};
use serde_json::json;

pub(crate) use self::accounts::SigningKey;
use self::options::{DeleteOptions, WriteOptions};
use self::timers::Timers;
pub(crate) use self::view::encode;
use self::write::{Scope, Target, Writer};
use crate::env::Env;
use crate::faults::StoreControl;
use crate::http_types::{ApiRequest, HandlerOutcome, User};
use crate::listener::Handler;
use crate::logs::PodLogs;
use crate::registry::{Registry, Resource};
use crate::store::{At, History, Image, Span, Store, StoreStats};
use crate::version::ServerVersion;

/// When the controllers that live inside the server do their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerTiming {
    /// Within the request that gave rise to it: when the answer arrives, the work is done.
    #[default]
    Immediate,
    /// This long after it arose.
    Delayed(Duration),
    /// Never, as on a server without a controller manager.
    Off,
}

/// Everything that a server holds at one moment: objects, history, and the custom resources it serves.
///
/// Cheap to clone and to keep: the objects are shared with the server it was taken from. Make an expensive fixture once,
/// then start a server from it for each test ([`Builder::snapshot`](crate::Builder::snapshot)).
#[derive(Clone)]
pub struct Snapshot {
    image: Image,
    registry: Registry,
}

#[cfg(test)]
impl Snapshot {
    /// Of a server without anything.
    pub(crate) fn empty() -> Self {
        Snapshot { image: Store::new(History::default()).image(), registry: Registry::builtin() }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// What can be chosen about a server's engine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) history: History,
    /// The namespace controller.
    pub(crate) namespaces: ControllerTiming,
    /// How long events are kept; `None` for ever.
    pub(crate) event_ttl: Option<Duration>,
    /// Which release to answer like.
    pub(crate) version: ServerVersion,
    /// What to start from instead of an empty server.
    pub(crate) snapshot: Option<Snapshot>,
    /// What tokens of service accounts are signed with; made from the `Env`'s randomness, which may be poor, if there is
    /// none.
    pub(crate) signing_key: Option<SigningKey>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            history: History::default(),
            namespaces: ControllerTiming::Immediate,
            event_ttl: Some(Duration::from_secs(3600)),
            version: ServerVersion::default(),
            snapshot: None,
            signing_key: None,
        }
    }
}

/// See the module's documentation.
pub(crate) struct ApiEngine {
    store: Store,
    registry: RwLock<Registry>,
    env: Arc<dyn Env>,
    settings: Settings,
    timers: Arc<Timers>,
    /// Shared by those who write definitions, until what they wrote is in force, and held alone by who takes or restores
    /// a snapshot: the store and the registry of a snapshot belong together.
    definition_writes: RwLock<()>,
    /// Held while a definition is brought into force, so that names are judged one definition at a time.
    definitions: Mutex<()>,
    /// Held while a Service is given addresses and stored, so that none is given twice.
    addresses: Mutex<()>,
    /// Shared by those who create objects and held alone by who marks a namespace or a definition for deletion: whatever
    /// was created in it before it began to go is there when it is emptied.
    creates: RwLock<()>,
    /// Held while a namespace is swept. Of two sweeps at once each could take what the other deletes for held, and
    /// leave the rest to the other.
    sweeping: Mutex<()>,
    /// Terminating namespaces and when to look at them.
    sweeps: Mutex<BTreeSet<(Duration, String)>>,
    /// When to look for expired events again.
    next_expiry: Mutex<Duration>,
    /// What containers have written.
    logs: PodLogs,
    /// What tokens of service accounts are signed with.
    signing_key: SigningKey,
}

impl ApiEngine {
    /// A server with nothing in it but the namespaces that every cluster has. A fresh server is always at the same
    /// revision (STO-1).
    pub(crate) fn new(mut settings: Settings, env: Arc<dyn Env>) -> Arc<Self> {
        let snapshot = settings.snapshot.take();
        let engine = Arc::new(ApiEngine {
            logs: PodLogs::new(Arc::clone(&env)),
            signing_key: settings.signing_key.take().unwrap_or_else(|| SigningKey::random(&*env)),
            store: Store::new(settings.history),
            registry: RwLock::new(Registry::builtin()),
            env,
            settings,
            timers: Arc::default(),
            definition_writes: RwLock::default(),
            definitions: Mutex::default(),
            addresses: Mutex::default(),
            creates: RwLock::default(),
            sweeping: Mutex::default(),
            sweeps: Mutex::default(),
            next_expiry: Mutex::default(),
        });
        match snapshot {
            Some(snapshot) => engine.restore(&snapshot),
            None => engine.seed(),
        }
        engine
    }

    fn seed(&self) {
        let registry = self.registry();
        let options = WriteOptions::default();
        let writer = Writer::new(&options, "evenkeel");
        if let Some(resource) = registry.lookup("", "v1", "namespaces") {
            for name in namespaces::INITIAL {
                let mut namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
                crate::kinds::default_object("", "v1", "Namespace", &mut namespace);
                let created = self.create(resource, None, namespace, writer);
                debug_assert!(created.is_ok(), "the first namespaces are valid: {created:?}");
            }
        }
        // History begins here, for every resource (WAT-21): nobody can have seen an earlier revision.
        self.store.compact(self.store.revision());
    }

    fn restore(&self, snapshot: &Snapshot) {
        {
            let _definitions_rest = self.definitions_rest();
            self.change_registry(|_| snapshot.registry.clone());
            self.store.load(&snapshot.image);
        }
        // Sweeps that were due when the snapshot was taken are not part of it.
        self.terminating_namespaces().iter().for_each(|namespace| self.schedule_sweep(namespace));
    }

    /// While this is held, no definition is being written and none is coming into force.
    fn definitions_rest(&self) -> (RwLockWriteGuard<'_, ()>, MutexGuard<'_, ()>) {
        let unwritten = self.definition_writes.write().unwrap_or_else(PoisonError::into_inner);
        (unwritten, self.definitions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn registry(&self) -> Registry {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_registry(&self, change: impl FnOnce(&Registry) -> Registry) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        *registry = change(&registry);
    }

    /// What a removal or a mark for deletion gives rise to.
    fn after_deletion(&self, resource: &Resource, namespace: Option<&str>, name: &str) {
        if write::is_namespace(resource) {
            self.schedule_sweep(name);
        }
        if write::is_definition(resource) {
            self.definition_changed(name);
        }
        self.after_change(resource, namespace);
    }

    /// An object that is gone, or has lost a finalizer, may have been the last to hold its namespace or definition.
    fn after_change(&self, resource: &Resource, namespace: Option<&str>) {
        // The store is asked, not the resource: that one is from before the change, and may not know yet.
        if let Some(custom) = &resource.custom
            && self.is_terminating(definitions::TABLE, &custom.definition)
        {
            self.definition_changed(&custom.definition);
        }
        if let Some(namespace) = namespace
            && self.is_terminating(namespaces::TABLE, namespace)
        {
            self.schedule_sweep(namespace);
        }
    }

    fn is_terminating(&self, table: &str, key: &str) -> bool {
        self.store.get(table, key).is_some_and(|record| record.facts.deleting)
    }

    fn schedule_sweep(&self, namespace: &str) {
        match self.settings.namespaces {
            ControllerTiming::Off => {}
            ControllerTiming::Immediate => self.sweep(namespace),
            ControllerTiming::Delayed(delay) => {
                let at = self.env.monotonic().saturating_add(delay);
                let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
                sweeps.insert((at, namespace.to_owned()));
            }
        }
    }

    fn run_due_sweeps(&self, now: Duration) {
        let due = {
            let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            let later = sweeps.split_off(&(now + Duration::from_nanos(1), String::new()));
            std::mem::replace(&mut *sweeps, later)
        };
        due.iter().for_each(|(_, namespace)| self.sweep(namespace));
    }

    /// Sweeps a namespace. The last object of a terminating definition may go with it.
    fn sweep(&self, namespace: &str) {
        self.sweep_namespace(namespace);
        self.sweep_definitions();
    }

    /// Deletes events that have outlived their time (MSC-1). Every event is looked at, so not at every tick: a minute
    /// more or less matters to nobody who keeps events for an hour.
    fn expire_events(&self, now: Duration) {
        let Some(ttl) = self.settings.event_ttl else { return };
        {
            let mut due = self.next_expiry.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *due {
                return;
            }
            *due = now + (ttl / 60).min(Duration::from_secs(60));
        }
        let registry = self.registry();
        let Some(resource) = registry.lookup("", "v1", "events") else { return };
        let Ok(ttl) = jiff::SignedDuration::try_from(ttl) else { return };
        let Ok(oldest) = self.env.wall().checked_sub(ttl) else { return };
        let oldest = crate::env::rfc3339(oldest);
        let is_old = |record: &crate::store::Record| {
            let metadata = std::str::from_utf8(record.metadata()).unwrap_or_default();
            let created = JsonValue::at_path(metadata, "creationTimestamp").ok().flatten();
            created.is_some_and(|created| *created.text() < *oldest)
        };
        let events = self.store.list(&resource.storage, Span::default(), At::Latest, |_, _| true);
        let events = events.map(|page| page.records).unwrap_or_default();
        for record in events.into_iter().filter(|record| is_old(record)) {
            let event = record.value();
            let (namespace, name) = (object::text(&event, "namespace"), object::text(&event, "name"));
            let target = Target { resource, namespace: Some(namespace), name, scope: Scope::Main };
            let options = DeleteOptions { uid: Some(record.facts.uid.to_string()), ..DeleteOptions::default() };
            if let Err(status) = self.delete(target, &options) {
                tracing::debug!(namespace, name, %status, "an event that has expired is gone already");
            }
        }
    }
}

impl Handler for Arc<ApiEngine> {
    fn handle(&self, request: &ApiRequest, waited: bool) -> HandlerOutcome {
        self.dispatch(request, waited)
    }

    fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.store.poll_revision(revision, cx)
    }

    fn tick(&self) {
        let now = self.env.monotonic();
        self.store.tick(now);
        self.run_due_sweeps(now);
        self.expire_events(now);
        self.timers.turn(now);
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

    fn snapshot(&self) -> Snapshot {
        let _definitions_rest = self.definitions_rest();
        Snapshot { image: self.store.image(), registry: self.registry() }
    }

    fn restore(&self, snapshot: &Snapshot) {
        ApiEngine::restore(self, snapshot);
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

    fn reset_history(&self) {
        self.store.compact(self.store.revision());
        self.store.close_watches();
    }
}

/// What is left for later says so.
fn not_implemented(what: &str) -> Status {
    Status::failure(501, Reason::from("NotImplemented"), format!("this server does not support {what} yet"))
}
