//! The informer picture, live: a web page that shows what informers and queues of a program are doing, and follows a key through
//! all stages.
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
//! println!("look at {}", server.url());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! | path | answers |
//! |---|---|
//! | `/` | the page; all that it needs comes from here |
//! | `/state` | what the page shows, as JSON |
//! | `/events` | the same as server-sent events: first everything, then what is new, at most four times a second |
//!
//! `?follow=default/a` adds what happened to that key to the last two.
//!
//! # What may be assumed
//!
//! - Steps are told by informers and queues as they happen; nothing is guessed from numbers. A key that a handler adds to a queue
//!   knows of which change that came.
//! - An inspector keeps neither informers nor queues alive. Those that are gone go from the page.
//! - What is remembered is bounded: the last 4,096 steps of all keys together, 200 notifications, 100 errors, 50 notes.
//! - Names, versions, numbers and texts of errors are shown: never an object.
//! - On a loopback address, only those are answered who ask for this machine by name or address, so that no page of another
//!   site can read along.
//! - At most 16 pages are kept up to date at once. One that does not read is dropped when the buffers on the way to it have been
//!   full for half a minute.
//!
//! # What is not promised
//!
//! - There is no TLS and no login: whoever can reach the port can read what it serves.
//! - What is observed costs something: a lock and a line to write down for each step. What is not observed costs one load.
//! - The format of `/state` and `/events` is that of the page, and changes with it.

mod lanes;
mod ledger;
pub mod metrics;
mod server;
mod site;
mod stream;
mod taps;
#[cfg(test)]
mod tests;
mod viewer;

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

use self::lanes::Lane;
use self::ledger::{LaneId, Ledger};
use self::metrics::Metrics;

/// So many pages are kept up to date at once.
pub(crate) const STREAMS: usize = 16;

/// Shows what informers and queues are doing: see [the module](self). Cheap to clone; all clones are the same.
///
/// When the last clone and the last [server](InspectServer) are gone, nothing is observed any more.
#[derive(Clone)]
pub struct Inspector(Arc<Inner>);

struct Inner {
    /// Which of the runs of a program this is, so that a page can tell when it is another.
    run: u64,
    program: String,
    began: Instant,
    ledger: Mutex<Ledger>,
    lanes: Mutex<Lanes>,
    places: Arc<Semaphore>,
    metrics: Metrics,
}

#[derive(Default)]
struct Lanes {
    next: LaneId,
    all: Vec<Arc<Lane>>,
}

/// When somebody looks.
struct Moments {
    /// When the inspector began.
    began: Instant,
    now: Instant,
}

impl Inspector {
    /// Shows nothing yet.
    #[expect(clippy::new_without_default, reason = "an inspector is made to be shared, not as a part of something")]
    pub fn new() -> Self {
        let program = std::env::args_os().next().map(std::path::PathBuf::from);
        let program = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
        Inspector(Arc::new(Inner {
            // A number that a page can hold without loss.
            run: fastrand::u64(..1 << 52),
            program: crate::health::one_line(&program.to_string_lossy(), 64),
            began: Instant::now(),
            ledger: Mutex::default(),
            lanes: Mutex::default(),
            places: Arc::new(Semaphore::new(STREAMS)),
            metrics: Metrics::new(),
        }))
    }

    /// Shows an informer, by its name, until it is gone. One that is shown already is not shown twice.
    pub fn informer<K: 'static>(&self, informer: &SharedInformer<K>) {
        let weak = Arc::downgrade(&self.0);
        self.0.add(informer, informer.name(), |id, name| Lane::informer(id, name, informer, weak));
    }

    /// Shows a queue, by this name, until it is gone. One that is shown already is not shown twice.
    ///
    /// What an [`Item`](evenkeel_queue::Item) is [retried](evenkeel_queue::Item::retry) or
    /// [given up](evenkeel_queue::Item::give_up) for is shown among the errors.
    pub fn queue<K: Key + Display>(&self, name: impl Into<String>, queue: &WorkQueue<K>) {
        let weak = Arc::downgrade(&self.0);
        self.0.add(queue, &name.into(), |id, name| Lane::queue(id, name, queue, weak));
    }

    /// Shows an error: what `component` was doing with `key`. The same one many times in a row is one, with a count.
    pub fn error(&self, component: &str, key: impl Display, error: impl Display) {
        let (key, error) = (key.to_string(), error.to_string());
        self.0.record(|ledger, at| ledger.error(at, component, &key, &error));
    }

    /// Shows a line of the story: what the program, or its user, is about to do.
    pub fn note(&self, text: impl Display) {
        let text = text.to_string();
        self.0.record(|ledger, at| ledger.note(at, &text));
    }

    /// What the page shows, as JSON; with what happened to a key lately, if there is one to follow.
    pub fn report(&self, follow: Option<&str>) -> Value {
        let mut viewer = viewer::Viewer::new(follow.map(str::to_owned));
        viewer.look(&self.0, Instant::now()).unwrap_or_default()
    }

    /// Serves the page, in a task of the runtime that this is awaited in.
    ///
    /// A host and a port; port 0 is one that is free. `127.0.0.1` is for programs on this machine; `:8082` is every address of the
    /// machine, and everybody who can reach it.
    ///
    /// # Errors
    /// If the address is none, or cannot be listened on.
    pub async fn serve(&self, address: impl Into<String>) -> Result<InspectServer, StartError> {
        InspectServer::start(&self.0, &address.into()).await
    }
}

impl Inner {
    /// Writes down what has happened now.
    fn record(&self, write: impl FnOnce(&mut Ledger, Duration)) {
        let mut ledger = self.ledger();
        // Under the lock, so that what is written later has not happened before.
        let at = self.began.elapsed();
        let before = ledger.forgotten();
        write(&mut ledger, at);
        let forgotten = ledger.forgotten() - before;
        drop(ledger);
        if forgotten > 0 {
            self.metrics.forgotten.increment(forgotten);
        }
    }

    /// Adds what is not there yet, by a name that nothing else has.
    fn add(&self, handle: &dyn Any, name: &str, make: impl FnOnce(LaneId, Arc<str>) -> Lane) {
        self.drop_gone();
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.all.iter().any(|lane| lane.is(handle)) {
            return;
        }
        let name = &*ledger::name(name);
        let is_taken = |name: &str| lanes.all.iter().any(|lane| &*lane.name == name);
        let name = match is_taken(name) {
            false => name.into(),
            true => (2..).map(|n| format!("{name} ({n})")).find(|name| !is_taken(name)).unwrap_or_default().into(),
        };
        let id = lanes.next;
        lanes.next += 1;
        // Before the first step is told.
        self.ledger().begin(id);
        let lane = make(id, name);
        lanes.all.push(Arc::new(lane));
    }

    /// Informers and queues, as they are.
    fn lanes(&self, moments: &Moments) -> Value {
        let all = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let (mut informers, mut queues, mut is_any_gone) = (Vec::new(), Vec::new(), false);
        // No lock is held: the handle that is looked through may have become the last.
        let seen: Vec<_> = all.iter().map(|lane| (lane, (lane.look)(moments))).collect();
        let ledger = self.ledger();
        for (lane, seen) in seen {
            let Some(mut seen) = seen else {
                is_any_gone = true;
                continue;
            };
            lane.complete(&mut seen, &ledger);
            if lane.is_queue { &mut queues } else { &mut informers }.push(seen);
        }
        drop(ledger);
        if is_any_gone {
            self.drop_gone();
        }
        json!({"informers": informers, "queues": queues})
    }

    /// Lets go of what is gone.
    fn drop_gone(&self) {
        let moments = Moments { began: self.began, now: Instant::now() };
        let all = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
        let gone: Vec<LaneId> = all.iter().filter(|lane| (lane.look)(&moments).is_none()).map(|lane| lane.id).collect();
        if gone.is_empty() {
            return;
        }
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).all.retain(|lane| !gone.contains(&lane.id));
        let mut ledger = self.ledger();
        gone.into_iter().for_each(|lane| ledger.forget(lane));
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing of anybody else's runs while it is held.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let names = lanes.all.iter().map(|lane| &lane.name);
        f.debug_struct("Inspector").field("lanes", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
