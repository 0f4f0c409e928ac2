//! [`History`]: why keys were queued, and how reconciles failed, for diagnostics.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceInfo};
use evenkeel_queue::WorkQueue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::context::ControllerShared;
use super::parked_keys::ParkedKeys;
use crate::enqueue::EventClass;
use crate::health::{Diagnostics, Source, one_line, queue_report, seconds};

/// So many reasons are remembered.
const REASONS: usize = 1000;
/// So many keys that have failed are remembered.
const FAILURES: usize = 100;
/// So many keys that are parked are told of.
const PARKED: usize = 100;
/// A text is one line of at most so many bytes.
const TEXT_LENGTH: usize = 1024;

const CONTROLLERS: &str = "controllers";
const QUEUED: &str = "queued";

/// What a controller remembers for diagnostics: nothing, unless it was asked to. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub(super) struct History(Option<Arc<HistoryRecords>>);

#[derive(Default)]
struct HistoryRecords {
    /// The newest is the last.
    reasons: Mutex<VecDeque<QueuedKey>>,
    /// Each key once. The newest is the last.
    failures: Mutex<VecDeque<FailedKey>>,
    /// There is none before the controller works.
    parked_keys: OnceLock<Weak<ParkedKeys>>,
}

struct QueuedKey {
    at: Instant,
    key: ObjectKey,
    why: EnqueueReason,
}

struct FailedKey {
    at: Instant,
    key: ObjectKey,
    error: String,
    failures: u32,
    is_terminal: bool,
}

/// EnqueueReason a key was queued. It becomes a text only if somebody asks.
pub(super) enum EnqueueReason {
    Notified { info: Arc<ResourceInfo>, object: ObjectKey, class: EventClass },
    Retry { failures: u32 },
    Requeue,
    After(Duration),
    Trigger,
    OwnWrites { seen: bool },
}

impl fmt::Display for EnqueueReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueReason::Notified { info, object, class } => {
                let what = match class {
                    EventClass::Initial => "is in the initial list",
                    EventClass::Added => "came",
                    EventClass::Updated => "changed",
                    EventClass::Unchanged => "is unchanged: resync",
                    EventClass::Deleted => "was deleted",
                    EventClass::Missed => "is gone, and its deletion was missed",
                };
                write!(f, "{} {object} {what}", info.kind())
            }
            EnqueueReason::Retry { failures } => write!(f, "retry after failure {failures}"),
            EnqueueReason::Requeue => f.write_str("requeue"),
            EnqueueReason::After(wait) => write!(f, "requeue after {wait:?}"),
            EnqueueReason::Trigger => f.write_str("trigger"),
            EnqueueReason::OwnWrites { seen: true } => f.write_str("own writes seen"),
            EnqueueReason::OwnWrites { seen: false } => f.write_str("own writes not seen in time"),
        }
    }
}

fn lock<T>(records: &Mutex<T>) -> MutexGuard<'_, T> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the newest, and lets go of the oldest if there are too many.
fn push<T>(ring: &mut VecDeque<T>, limit: usize, newest: T) {
    if ring.len() >= limit {
        ring.pop_front();
    }
    ring.push_back(newest);
}

impl History {
    /// One that remembers.
    pub(super) fn open() -> Self {
        History(Some(Arc::default()))
    }

    /// Whether anything is remembered.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// The key is being queued. What is said of it is not made if nobody remembers.
    pub(super) fn queued(&self, key: &ObjectKey, why: impl FnOnce() -> EnqueueReason) {
        let Some(records) = &self.0 else { return };
        let reason = QueuedKey { at: Instant::now(), key: key.clone(), why: why() };
        push(&mut lock(&records.reasons), REASONS, reason);
    }

    /// A reconcile of the key has failed, which makes so many failures in a row.
    pub(super) fn failed(&self, key: &ObjectKey, error: impl fmt::Display, failures: u32, is_terminal: bool) {
        let Some(records) = &self.0 else { return };
        let error = one_line(&format!("{error:#}"), TEXT_LENGTH);
        let mut ring = lock(&records.failures);
        // A key that fails again and again does not push out the others.
        if let Some(known) = ring.iter().position(|failed| failed.key == *key) {
            ring.remove(known);
        }
        push(&mut ring, FAILURES, FailedKey { at: Instant::now(), key: key.clone(), error, failures, is_terminal });
    }

    /// This is where keys of the controller are parked.
    pub(super) fn set_parked_keys(&self, parked_keys: &Arc<ParkedKeys>) {
        if let Some(records) = &self.0 {
            // A controller works once.
            let _ = records.parked_keys.set(Arc::downgrade(parked_keys));
        }
    }
}

impl HistoryRecords {
    fn reasons(&self, now: Instant) -> Value {
        let one = |reason: &QueuedKey| {
            json!({
                "key": one_line(reason.key.as_ref(), TEXT_LENGTH),
                "why": one_line(&reason.why.to_string(), TEXT_LENGTH),
                "seconds_ago": seconds(now.saturating_duration_since(reason.at)),
            })
        };
        lock(&self.reasons).iter().rev().map(one).collect()
    }

    fn failures(&self, now: Instant) -> Value {
        let one = |failed: &FailedKey| {
            json!({
                "key": one_line(failed.key.as_ref(), TEXT_LENGTH),
                "error": failed.error,
                "failures": failed.failures,
                "terminal": failed.is_terminal,
                "seconds_ago": seconds(now.saturating_duration_since(failed.at)),
            })
        };
        lock(&self.failures).iter().rev().map(one).collect()
    }

    fn parked(&self) -> Vec<ObjectKey> {
        self.parked_keys.get().and_then(Weak::upgrade).map(|parked_keys| parked_keys.parked()).unwrap_or_default()
    }
}

/// A controller that diagnostics look at, until this is dropped.
///
/// What they look at they do not hold: neither the queue nor an informer lives longer for it.
pub(super) struct DiagnosticsEntry {
    diagnostics: Diagnostics,
    controller: String,
}

impl DiagnosticsEntry {
    /// Adds a controller to diagnostics; nothing, if its history is not open.
    pub(super) fn new(
        diagnostics: Diagnostics,
        history: &History,
        shared: &Arc<ControllerShared>,
        queue: &WorkQueue<ObjectKey>,
    ) -> Option<Self> {
        let records = history.0.as_ref()?;
        let controller = shared.name.to_string();
        let (shared, queue) = (Arc::downgrade(shared), queue.downgrade());
        diagnostics.add(Source::timed(CONTROLLERS, &controller, {
            let records = Arc::clone(records);
            move |now| {
                let informers = shared.upgrade().map(|shared| informers(&shared, now));
                let queue = queue.upgrade().map(|queue| queue_report(&queue.stats(), queue.is_shutting_down()));
                let mut parked = records.parked();
                let parked_in_all = parked.len();
                parked.sort();
                parked.truncate(PARKED);
                let parked: Value = parked.iter().map(|key| json!({"key": key.to_string()})).collect();
                json!({
                    "informers": informers,
                    "queue": queue,
                    "parked": parked_in_all,
                    "parked_keys": parked,
                    "failures": records.failures(now),
                })
            }
        }));
        diagnostics.add(Source::timed(QUEUED, &controller, {
            let records = Arc::clone(records);
            move |now| records.reasons(now)
        }));
        Some(DiagnosticsEntry { diagnostics, controller })
    }
}

fn informers(shared: &ControllerShared, now: Instant) -> Map<String, Value> {
    shared.kinds.iter().map(|kind| kind.report(now)).collect()
}

impl Drop for DiagnosticsEntry {
    fn drop(&mut self) {
        self.diagnostics.remove(CONTROLLERS, &self.controller);
        self.diagnostics.remove(QUEUED, &self.controller);
    }
}
