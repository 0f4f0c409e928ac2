//! [`History`]: why keys were enqueued and how reconciles failed, for diagnostics.

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

/// The number of enqueue reasons that are kept.
const REASONS: usize = 1000;
/// The number of failed keys that are kept.
const FAILURES: usize = 100;
/// The number of parked keys that are reported.
const PARKED: usize = 100;
/// The maximum length of a text in bytes.
const TEXT_LENGTH: usize = 1024;

const CONTROLLERS: &str = "controllers";
const QUEUED: &str = "queued";

/// What a controller records for diagnostics: nothing, unless it was opened. Cheap to clone; all clones share the records.
#[derive(Clone, Default)]
pub(super) struct History(Option<Arc<HistoryRecords>>);

#[derive(Default)]
struct HistoryRecords {
    /// The newest is the last.
    reasons: Mutex<VecDeque<QueuedKey>>,
    /// Each key once. The newest is the last.
    failures: Mutex<VecDeque<FailedKey>>,
    /// Set when the workers start.
    parked_keys: OnceLock<Weak<ParkedKeys>>,
}

struct QueuedKey {
    at: Instant,
    key: ObjectKey,
    reason: EnqueueReason,
}

struct FailedKey {
    at: Instant,
    key: ObjectKey,
    error: String,
    failures: u32,
    is_terminal: bool,
}

/// Why a key was enqueued. Formatted only when diagnostics are read.
pub(super) enum EnqueueReason {
    Event { info: Arc<ResourceInfo>, object: ObjectKey, class: EventClass },
    Retry { failures: u32 },
    Requeue,
    After(Duration),
    Trigger,
    OwnWrites { seen: bool },
}

impl fmt::Display for EnqueueReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueReason::Event { info, object, class } => {
                let what = match class {
                    EventClass::Initial => "is in the initial list",
                    EventClass::Added => "was added",
                    EventClass::Updated => "was updated",
                    EventClass::Unchanged => "is unchanged: resync",
                    EventClass::Deleted => "was deleted",
                    EventClass::Missed => "was deleted, found by relist",
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

/// Appends the newest element, and removes the oldest one if the ring is full.
fn push<T>(ring: &mut VecDeque<T>, limit: usize, newest: T) {
    if ring.len() >= limit {
        ring.pop_front();
    }
    ring.push_back(newest);
}

impl History {
    /// Returns a history that records.
    pub(super) fn open() -> Self {
        History(Some(Arc::default()))
    }

    /// Returns whether it records.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Records that a key is enqueued. `reason` is only called if the history is open.
    pub(super) fn queued(&self, key: &ObjectKey, reason: impl FnOnce() -> EnqueueReason) {
        let Some(records) = &self.0 else { return };
        let queued = QueuedKey { at: Instant::now(), key: key.clone(), reason: reason() };
        push(&mut lock(&records.reasons), REASONS, queued);
    }

    /// Records that a reconcile of the key failed, for the `failures`-th time in a row.
    pub(super) fn failed(&self, key: &ObjectKey, error: impl fmt::Display, failures: u32, is_terminal: bool) {
        let Some(records) = &self.0 else { return };
        let error = one_line(&format!("{error:#}"), TEXT_LENGTH);
        let mut ring = lock(&records.failures);
        // A key that keeps failing does not evict the others.
        if let Some(known) = ring.iter().position(|failed| failed.key == *key) {
            ring.remove(known);
        }
        push(&mut ring, FAILURES, FailedKey { at: Instant::now(), key: key.clone(), error, failures, is_terminal });
    }

    /// Sets the parked keys of the controller.
    pub(super) fn set_parked_keys(&self, parked_keys: &Arc<ParkedKeys>) {
        if let Some(records) = &self.0 {
            // Set once: the workers of a controller start once.
            let _ = records.parked_keys.set(Arc::downgrade(parked_keys));
        }
    }
}

impl HistoryRecords {
    fn reasons(&self, now: Instant) -> Value {
        let one = |queued: &QueuedKey| {
            json!({
                "key": one_line(queued.key.as_ref(), TEXT_LENGTH),
                "why": one_line(&queued.reason.to_string(), TEXT_LENGTH),
                "seconds_ago": seconds(now.saturating_duration_since(queued.at)),
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

/// The sections of a controller in the diagnostics, until this is dropped.
///
/// It keeps neither the queue nor an informer alive.
pub(super) struct DiagnosticsEntry {
    diagnostics: Diagnostics,
    controller: String,
}

impl DiagnosticsEntry {
    /// Adds a controller to the diagnostics. Returns `None` if its history is not open.
    pub(super) fn new(
        diagnostics: Diagnostics,
        history: &History,
        shared: &Arc<ControllerShared>,
        queue: &WorkQueue<ObjectKey>,
    ) -> Option<Self> {
        let records = history.0.as_ref()?;
        let controller = shared.label();
        let (shared, queue) = (Arc::downgrade(shared), queue.downgrade());
        diagnostics.add(Source::timed(CONTROLLERS, &controller, {
            let records = Arc::clone(records);
            move |now| {
                let informers = shared.upgrade().map(|shared| informers(&shared, now));
                let queue = queue.upgrade().map(|queue| queue_report(&queue.stats(), queue.is_shutting_down()));
                let mut parked = records.parked();
                let parked_total = parked.len();
                parked.sort();
                parked.truncate(PARKED);
                let parked: Value = parked.iter().map(|key| json!({"key": key.to_string()})).collect();
                json!({
                    "informers": informers,
                    "queue": queue,
                    "parked": parked_total,
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
    shared.kinds.all().iter().map(|kind| kind.report(now)).collect()
}

impl Drop for DiagnosticsEntry {
    fn drop(&mut self) {
        self.diagnostics.remove(CONTROLLERS, &self.controller);
        self.diagnostics.remove(QUEUED, &self.controller);
    }
}
