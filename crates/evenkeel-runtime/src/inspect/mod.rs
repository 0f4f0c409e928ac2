//! The live page: a web page that shows failing and waiting keys, the informers and work queues of a program, and follows a
//! key through all stages.
//!
//! ```text
//! API server ──► reflector ──► delta queue ──► indexer ──► handlers ──► work queue ──► workers
//! ```
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use evenkeel_queue::WorkQueue;
//! use evenkeel_runtime::inspect::Inspector;
//!
//! let inspector = Inspector::new();
//! let queue = WorkQueue::<String>::rate_limited("foos");
//! inspector.queue("foos", &queue);
//! // inspector.informer(&informer);
//! let server = inspector.serve("127.0.0.1:0").await?;
//! println!("inspector at {}", server.url());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! | path | returns |
//! |---|---|
//! | `/` | the page; it loads nothing from other hosts |
//! | `/state` | the content of the page as JSON |
//! | `/events` | the same as server-sent events: a full report, then changes, at most four times a second |
//!
//! `?follow=default/a` adds the steps of that key to `/state` and `/events`.
//!
//! # Guarantees
//!
//! - Informers and queues report each step as it happens; no step is inferred from counters. A key that a handler adds
//!   to a queue is recorded with the notification that caused it.
//! - An inspector keeps neither informers nor queues alive. Dropped ones disappear from the page.
//! - The history is bounded: the last 4,096 steps of all keys together, 1,024 tracked keys, 200 notifications, 100 errors,
//!   50 notes.
//! - The page shows names, versions, counts and error messages, never the content of an object.
//! - On a loopback address, requests whose `Host` is not this machine are refused, so that pages of other sites cannot
//!   read the report.
//! - At most 16 event streams are open at once. A stream whose client does not read is closed once its socket buffers
//!   have been full for 30 seconds.
//!
//! # Not guaranteed
//!
//! - There is no TLS and no authentication: every client that can reach the port can read the report.
//! - Observation has a cost: one lock and one history entry per step. Unobserved informers and queues pay one atomic
//!   load.
//! - The format of `/state` and `/events` belongs to the page and changes with it.

mod history;
mod keys;
pub mod metrics;
mod observers;
mod rings;
mod server;
mod session;
mod site;
mod sources;
mod stream;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_queue::{Key, WorkQueue};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::server::InspectServer;
pub use crate::serve::StartError;

use self::history::{RecentHistory, SourceId};
use self::metrics::InspectMetrics;
use self::rings::ObservedRings;
use self::sources::ObservedSource;
use crate::election::ElectorHandle;
use crate::ring::RingHandle;

/// Maximum number of open event streams.
pub(crate) const STREAMS: usize = 16;

/// Shows informers and queues on a web page: see [the module](self). Cheap to clone; clones share one state.
///
/// Observation stops when the last clone and the last [server](InspectServer) are dropped.
#[derive(Clone)]
pub struct Inspector(Arc<InspectorInner>);

struct InspectorInner {
    /// Identifies this process run, so that a page detects a restart.
    run: u64,
    program: String,
    start: Instant,
    history: Mutex<RecentHistory>,
    sources: Mutex<SourceList>,
    election: Mutex<Option<ElectorHandle>>,
    rings: ObservedRings,
    slots: Arc<Semaphore>,
    metrics: InspectMetrics,
}

#[derive(Default)]
struct SourceList {
    next: SourceId,
    all: Vec<Arc<ObservedSource>>,
    parked: Vec<ParkedSource>,
}

/// Returns the parked keys of a queue, and `None` once its controller has ended.
#[derive(Clone)]
struct ParkedSource {
    queue: Arc<str>,
    keys: Arc<dyn Fn() -> Option<Vec<String>> + Send + Sync>,
}

/// The time of a report.
struct ReportClock {
    /// When the inspector was created.
    start: Instant,
    now: Instant,
}

impl Inspector {
    /// Returns an inspector that shows nothing yet.
    #[expect(
        clippy::new_without_default,
        reason = "an inspector is shared by cloning; a default one would show nothing"
    )]
    pub fn new() -> Self {
        let program = std::env::args_os().next().map(std::path::PathBuf::from);
        let program = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
        Inspector(Arc::new(InspectorInner {
            // JavaScript represents integers below 2^53 exactly.
            run: fastrand::u64(..1 << 52),
            program: crate::health::one_line(&program.to_string_lossy(), 64),
            start: Instant::now(),
            history: Mutex::default(),
            sources: Mutex::default(),
            election: Mutex::default(),
            rings: ObservedRings::default(),
            slots: Arc::new(Semaphore::new(STREAMS)),
            metrics: InspectMetrics::new(),
        }))
    }

    /// Shows an informer under its name until it is dropped. Adding the same informer again has no effect.
    pub fn informer<K: 'static>(&self, informer: &SharedInformer<K>) {
        let weak = Arc::downgrade(&self.0);
        self.0.add(informer, informer.name(), |id, name| ObservedSource::informer(id, name, informer, weak));
    }

    /// Shows a queue under this name until it is dropped. Adding the same queue again has no effect.
    ///
    /// Errors passed to [`Item::retry`](evenkeel_queue::Item::retry) and
    /// [`Item::give_up`](evenkeel_queue::Item::give_up) are shown among the errors.
    pub fn queue<K: Key + Display>(&self, name: impl Into<String>, queue: &WorkQueue<K>) {
        let weak = Arc::downgrade(&self.0);
        self.0.add(queue, &name.into(), |id, name| ObservedSource::queue(id, name, queue, weak));
    }

    /// Shows whether this process leads, and which one does otherwise. A manager with an election does this itself.
    pub fn election(&self, elector: &ElectorHandle) {
        *self.0.election.lock().unwrap_or_else(PoisonError::into_inner) = Some(elector.clone());
    }

    /// Shows a ring until its members of this process are dropped: which member owns what, and moves under way. All replicas read
    /// the same table, so one page shows all of them. A sharded controller does this itself.
    pub fn ring(&self, ring: &RingHandle) {
        self.0.rings.add(ring);
    }

    /// Shows the parked keys of a queue until `keys` returns `None`.
    pub(crate) fn parked_keys(&self, queue: &str, keys: impl Fn() -> Option<Vec<String>> + Send + Sync + 'static) {
        let source = ParkedSource { queue: queue.into(), keys: Arc::new(keys) };
        let mut sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.parked.retain(|other| other.queue != source.queue);
        sources.parked.push(source);
    }

    /// Shows an error of `component` while it processed `key`. Consecutive equal errors are shown once, with a count.
    pub fn error(&self, component: &str, key: impl Display, error: impl Display) {
        let (key, error) = (key.to_string(), error.to_string());
        self.0.record(|history, at| history.error(at, component, &key, &error));
    }

    /// Shows a note at the top of the page, for example what the program does next.
    pub fn note(&self, text: impl Display) {
        let text = text.to_string();
        self.0.record(|history, at| history.note(at, &text));
    }

    /// Returns the content of the page as JSON, with the recent steps of a key if `follow` names one.
    pub fn report(&self, follow: Option<&str>) -> Value {
        let mut session = session::PageSession::new(follow.map(str::to_owned));
        session.update(&self.0, Instant::now()).unwrap_or_default()
    }

    /// Serves the page in a task of the current tokio runtime.
    ///
    /// `address` is a host and a port; port 0 selects a free port. `127.0.0.1` accepts only local clients; `:8082`
    /// listens on every address of the machine.
    ///
    /// # Errors
    /// If the address does not parse or cannot be bound.
    pub async fn serve(&self, address: impl Into<String>) -> Result<InspectServer, StartError> {
        InspectServer::start(&self.0, &address.into()).await
    }
}

impl InspectorInner {
    /// Records an entry at the current time.
    fn record(&self, write: impl FnOnce(&mut RecentHistory, Duration)) {
        let mut history = self.history();
        // Read under the lock, so that times are in the order of the entries.
        let at = self.start.elapsed();
        let before = history.evicted();
        write(&mut history, at);
        let evicted = history.evicted() - before;
        drop(history);
        if evicted > 0 {
            self.metrics.evicted.increment(evicted);
        }
    }

    /// Adds a source unless it is present, under a unique name.
    fn add(&self, handle: &dyn Any, name: &str, make: impl FnOnce(SourceId, Arc<str>) -> ObservedSource) {
        self.remove_dropped();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.all.iter().any(|source| source.is_same(handle)) {
            return;
        }
        let name = &*history::name(name);
        let is_used = |name: &str| sources.all.iter().any(|source| &*source.name == name);
        let name = match is_used(name) {
            false => name.into(),
            true => (2..).map(|n| format!("{name} ({n})")).find(|name| !is_used(name)).unwrap_or_default().into(),
        };
        let id = sources.next;
        sources.next += 1;
        // Before the observer reports its first step.
        self.history().add_source(id);
        let source = Arc::new(make(id, name));
        sources.all.push(Arc::clone(&source));
        drop(sources);
        // Objects of an informer that has listed already are in no event.
        for (key, version) in (source.present)() {
            let name = &source.name;
            self.record(|history, at| history.present(at, id, name, &key, &version));
        }
    }

    /// Reports all informers and queues, and removes dropped ones.
    fn report_sources(&self, clock: &ReportClock) -> Value {
        let all = self.sources.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let (mut informers, mut queues, mut any_dropped) = (Vec::new(), Vec::new(), false);
        let parked = self.parked();
        // Without locks: a report upgrades a weak handle, which may become the last one and run its destructor.
        let reports: Vec<_> = all.iter().map(|source| (source, (source.report)(clock))).collect();
        let history = self.history();
        for (source, report) in reports {
            let Some(mut report) = report else {
                any_dropped = true;
                continue;
            };
            source.complete(&mut report, &history);
            if source.is_queue { &mut queues } else { &mut informers }.push(report);
        }
        let keys = history.keys.report(&parked);
        drop(history);
        if any_dropped {
            self.remove_dropped();
        }
        json!({"informers": informers, "queues": queues, "keys": keys, "election": self.report_election(),
            "rings": self.rings.report()})
    }

    /// Returns the parked keys with their queues. Sources that have ended are removed.
    fn parked(&self) -> Vec<(Arc<str>, String)> {
        let all = self.sources.lock().unwrap_or_else(PoisonError::into_inner).parked.clone();
        let mut parked = Vec::new();
        for source in all {
            match (source.keys)() {
                Some(keys) => parked.extend(keys.into_iter().map(|key| (Arc::clone(&source.queue), key))),
                None => {
                    let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
                    sources.parked.retain(|other| !Arc::ptr_eq(&other.keys, &source.keys));
                }
            }
        }
        parked
    }

    fn report_election(&self) -> Value {
        let elector = self.election.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(elector) = elector else { return Value::Null };
        let name = |name: String| history::name(&name);
        json!({
            "leads": elector.is_leader(), "identity": name(elector.identity()), "leader": elector.leader().map(name),
        })
    }

    /// Returns the informers whose store contains a key, with the version there.
    fn stored(&self, key: &str) -> Value {
        let all = self.sources.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let stored = all.iter().filter_map(|source| Some((&source.name, (source.stored.as_ref()?)(key)?)));
        stored.map(|(name, version)| json!({"informer": &**name, "version": version})).collect()
    }

    /// Removes sources whose informer or queue was dropped.
    fn remove_dropped(&self) {
        let clock = ReportClock { start: self.start, now: Instant::now() };
        let all = self.sources.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let dropped: Vec<SourceId> =
            all.iter().filter(|source| (source.report)(&clock).is_none()).map(|source| source.id).collect();
        if dropped.is_empty() {
            return;
        }
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).all.retain(|source| !dropped.contains(&source.id));
        let mut history = self.history();
        dropped.into_iter().for_each(|source| history.remove_source(source));
    }

    fn history(&self) -> MutexGuard<'_, RecentHistory> {
        // No user code runs under this lock, so a poisoned history is consistent.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let names = sources.all.iter().map(|source| &source.name);
        f.debug_struct("Inspector").field("sources", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
