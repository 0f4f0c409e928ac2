//! The metrics of informers, under client-go's names where it has one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use evenkeel_core::ResourceInfo;

use crate::metrics::PerRecorder;

/// Shows how many deltas wait to be applied.
pub const QUEUED_ITEMS: &str = "informer_queued_items";
/// Times the processing of a batch of deltas: writing it to the store and handing out the notifications.
pub const PROCESSING_LATENCY: &str = "informer_processing_latency_seconds";
/// Shows the version that the store has reached: its last fifteen digits, which a gauge can hold.
pub const STORE_RESOURCE_VERSION: &str = "informer_store_resource_version";
/// Shows how many objects the store has.
pub const STORE_OBJECTS: &str = "informer_store_objects";
/// Shows how many bytes the payloads of the objects in the store have.
pub const STORE_BYTES: &str = "informer_store_payload_bytes";
/// Counts consistency checks.
pub const CONSISTENCY_CHECKS: &str = "informer_consistency_checks_total";
/// Gauge of the pending notifications of a handler.
pub const HANDLER_PENDING: &str = "informer_handler_pending_notifications";
/// Gauge of the age of the oldest pending notification.
pub const HANDLER_LAG: &str = "informer_handler_lag_seconds";
/// Counts calls of handlers that panicked.
pub const HANDLER_PANICS: &str = "informer_handler_panics_total";

/// Counts objects that have no value in a view.
pub const VIEW_FAILURES: &str = "informer_view_failures_total";

/// client-go's buckets for [`PROCESSING_LATENCY`], in seconds.
pub const LATENCY_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Describes the metrics of informers to the recorder.
pub(crate) fn describe() {
    describe_gauge!(QUEUED_ITEMS, Unit::Count, "Number of deltas that wait to be applied to the store.");
    describe_histogram!(PROCESSING_LATENCY, Unit::Seconds, "Time taken to apply deltas and hand out notifications.");
    describe_gauge!(STORE_RESOURCE_VERSION, Unit::Count, "The last 15 digits of the version that the store reached.");
    describe_gauge!(STORE_OBJECTS, Unit::Count, "Number of objects in the store.");
    describe_gauge!(STORE_BYTES, Unit::Bytes, "Bytes of the payloads in the store.");
    describe_counter!(CONSISTENCY_CHECKS, Unit::Count, "Consistency checks, by result.");
    describe_gauge!(HANDLER_PENDING, Unit::Count, "Pending notifications of a handler.");
    describe_gauge!(HANDLER_LAG, Unit::Seconds, "Age of the oldest pending notification of a handler.");
    describe_counter!(HANDLER_PANICS, Unit::Count, "Calls of handlers that panicked.");
    describe_counter!(VIEW_FAILURES, Unit::Count, "Objects that have no value in a view.");
}

/// The names of an informer and its handlers in metrics, for as long as they exist. No two have the same, so that none
/// overwrites the gauges of another: the second informer of a name and a kind is `name-2`, and so is the second handler of a
/// name.
#[derive(Debug)]
pub(super) struct Identity {
    labels: Vec<Label>,
    name: UniqueName,
    handlers: NameRegistry,
}

/// Names in use.
type NameRegistry = Arc<Mutex<BTreeSet<(String, String)>>>;

static INFORMERS: LazyLock<NameRegistry> = LazyLock::new(NameRegistry::default);

/// A name in use, which is free again when this is dropped.
#[derive(Debug)]
struct UniqueName {
    registry: NameRegistry,
    /// The name, and the scope in which it is unique.
    entry: (String, String),
}

impl UniqueName {
    fn new(registry: &NameRegistry, name: &str, scope: &str) -> Self {
        let mut names = registry.lock().unwrap_or_else(PoisonError::into_inner);
        let candidates = std::iter::once(name.to_owned()).chain((2_u64..).map(|number| format!("{name}-{number}")));
        let free = candidates.map(|name| (name, scope.to_owned())).find(|entry| !names.contains(entry));
        // There are more numbers than names in use.
        let entry = free.unwrap_or_default();
        names.insert(entry.clone());
        UniqueName { registry: Arc::clone(registry), entry }
    }
}

impl Drop for UniqueName {
    fn drop(&mut self) {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.entry);
    }
}

impl Identity {
    pub(super) fn new(name: &str, info: &ResourceInfo) -> Self {
        let name = UniqueName::new(&INFORMERS, name, &format!("{}/{}", info.api_version(), info.plural()));
        let labels = vec![
            Label::new("name", name.entry.0.clone()),
            Label::new("group", info.group().to_owned()),
            Label::new("version", info.version().to_owned()),
            Label::new("resource", info.plural().to_owned()),
        ];
        Identity { labels, name, handlers: NameRegistry::default() }
    }

    /// Returns the name, made unique.
    pub(super) fn name(&self) -> &str {
        &self.name.entry.0
    }
}

/// The metrics of one informer.
pub(super) struct InformerMetrics(PerRecorder<InformerHandles>);

struct InformerHandles {
    queued: Gauge,
    latency: Histogram,
    version: Gauge,
    objects: Gauge,
    bytes: Gauge,
}

impl InformerMetrics {
    pub(super) fn new(identity: &Identity) -> Self {
        let labels = identity.labels.clone();
        InformerMetrics(PerRecorder::new(move || {
            let labels = || labels.clone();
            InformerHandles {
                queued: gauge!(QUEUED_ITEMS, labels()),
                latency: histogram!(PROCESSING_LATENCY, labels()),
                version: gauge!(STORE_RESOURCE_VERSION, labels()),
                objects: gauge!(STORE_OBJECTS, labels()),
                bytes: gauge!(STORE_BYTES, labels()),
            }
        }))
    }

    pub(super) fn queued(&self, deltas: usize) {
        self.0.get().queued.set(deltas as f64);
    }

    pub(super) fn processed(&self, took: Duration) {
        self.0.get().latency.record(took);
    }

    pub(super) fn stored(&self, version: &str, objects: usize, bytes: usize) {
        let handles = self.0.get();
        handles.objects.set(objects as f64);
        handles.bytes.set(bytes as f64);
        if let Some(number) = last_digits(version) {
            handles.version.set(number as f64);
        }
    }
}

impl Drop for InformerMetrics {
    /// A stopped informer shows no objects.
    fn drop(&mut self) {
        let handles = self.0.get();
        for gauge in [&handles.queued, &handles.objects, &handles.bytes] {
            gauge.set(0.0);
        }
    }
}

/// Counts a consistency check with this result.
pub(super) fn count_consistency_check(identity: &Identity, result: &'static str) {
    let mut labels = identity.labels.clone();
    labels.push(Label::from_static_parts("result", result));
    counter!(CONSISTENCY_CHECKS, labels).increment(1);
}

/// The last fifteen digits of a version, as a number; 0 for the empty one, and `None` for what is not a number.
fn last_digits(version: &str) -> Option<u64> {
    if version.is_empty() {
        return Some(0);
    }
    let start = version.len().saturating_sub(15);
    version.get(start..)?.parse().ok()
}

/// The metrics of one handler.
#[derive(Debug)]
pub(super) struct HandlerMetrics {
    name: UniqueName,
    /// The panics so far, for a recorder that is installed late.
    panics: Arc<AtomicU64>,
    handles: PerRecorder<HandlerHandles>,
}

struct HandlerHandles {
    pending: Gauge,
    lag: Gauge,
    panics: Counter,
}

impl HandlerMetrics {
    pub(super) fn new(identity: &Identity, handler: &str) -> Self {
        let name = UniqueName::new(&identity.handlers, handler, "");
        let mut labels = identity.labels.clone();
        labels.push(Label::new("handler", name.entry.0.clone()));
        let panics: Arc<AtomicU64> = Arc::default();
        let known = Arc::clone(&panics);
        let handles = PerRecorder::new(move || {
            let handles = HandlerHandles {
                pending: gauge!(HANDLER_PENDING, labels.clone()),
                lag: gauge!(HANDLER_LAG, labels.clone()),
                panics: counter!(HANDLER_PANICS, labels.clone()),
            };
            handles.panics.increment(known.load(Ordering::Relaxed));
            handles
        });
        HandlerMetrics { name, panics, handles }
    }

    /// Returns the name of the handler, which no other handler of the informer has.
    pub(super) fn name(&self) -> &str {
        &self.name.entry.0
    }

    pub(super) fn behind(&self, pending: usize, lag: Duration) {
        let handles = self.handles.get();
        handles.pending.set(pending as f64);
        handles.lag.set(lag);
    }

    pub(super) fn panicked(&self) {
        let handles = self.handles.get();
        self.panics.fetch_add(1, Ordering::Relaxed);
        handles.panics.increment(1);
    }
}

/// The metrics of one view.
pub(crate) struct ViewMetrics {
    /// The failures so far, for a recorder that is installed late.
    failures: Arc<AtomicU64>,
    counter: PerRecorder<Counter>,
}

impl ViewMetrics {
    pub(super) fn new(identity: &Identity, view: &str) -> Self {
        let mut labels = identity.labels.clone();
        labels.push(Label::new("view", view.to_owned()));
        let failures: Arc<AtomicU64> = Arc::default();
        let known = Arc::clone(&failures);
        let counter = PerRecorder::new(move || {
            let counter = counter!(VIEW_FAILURES, labels.clone());
            counter.increment(known.load(Ordering::Relaxed));
            counter
        });
        ViewMetrics { failures, counter }
    }

    /// Counts an object without a value.
    pub(crate) fn failed(&self) {
        let counter = self.counter.get();
        self.failures.fetch_add(1, Ordering::Relaxed);
        counter.increment(1);
    }
}

#[cfg(test)]
mod tests;
