//! What informers count and time, under client-go's names where it has one.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use evenkeel_core::ResourceInfo;

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
/// Shows how many notifications a handler has yet to hear.
pub const HANDLER_PENDING: &str = "informer_handler_pending_notifications";
/// Shows how long the oldest of them has been waiting.
pub const HANDLER_LAG: &str = "informer_handler_lag_seconds";
/// Counts calls of handlers that panicked.
pub const HANDLER_PANICS: &str = "informer_handler_panics_total";

/// client-go's buckets for [`PROCESSING_LATENCY`], in seconds.
pub const LATENCY_BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Tells the recorder what the metrics of informers mean.
pub(crate) fn describe() {
    describe_gauge!(QUEUED_ITEMS, Unit::Count, "Number of deltas that wait to be applied to the store.");
    describe_histogram!(PROCESSING_LATENCY, Unit::Seconds, "Time taken to apply deltas and hand out notifications.");
    describe_gauge!(STORE_RESOURCE_VERSION, Unit::Count, "The last 15 digits of the version that the store reached.");
    describe_gauge!(STORE_OBJECTS, Unit::Count, "Number of objects in the store.");
    describe_gauge!(STORE_BYTES, Unit::Bytes, "Bytes of the payloads in the store.");
    describe_gauge!(HANDLER_PENDING, Unit::Count, "Notifications that a handler has yet to hear.");
    describe_gauge!(HANDLER_LAG, Unit::Seconds, "How long the oldest of those has been waiting.");
    describe_counter!(HANDLER_PANICS, Unit::Count, "Calls of handlers that panicked.");
}

/// What an informer is called in metrics, for as long as it lives. No two that live are called the same, so that none
/// counts for another: the second one of a name and a kind is `name-2`.
#[derive(Debug)]
pub(super) struct Identity {
    labels: Vec<Label>,
    taken: (String, String),
}

static TAKEN: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

fn taken() -> MutexGuard<'static, BTreeSet<(String, String)>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Identity {
    pub(super) fn new(name: &str, info: &ResourceInfo) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(crate::metrics::describe);
        let resource = format!("{}/{}", info.api_version(), info.plural());
        let mut all = taken();
        let names = std::iter::once(name.to_owned()).chain((2_u64..).map(|number| format!("{name}-{number}")));
        let free = names.map(|name| (name, resource.clone())).find(|name| !all.contains(name));
        // There are more numbers than there can be informers.
        let own = free.unwrap_or_default();
        all.insert(own.clone());
        drop(all);
        let labels = vec![
            Label::new("name", own.0.clone()),
            Label::new("group", info.group().to_owned()),
            Label::new("version", info.version().to_owned()),
            Label::new("resource", info.plural().to_owned()),
        ];
        Identity { labels, taken: own }
    }

    /// The name, made unique.
    pub(super) fn name(&self) -> &str {
        &self.taken.0
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        taken().remove(&self.taken);
    }
}

/// The metrics of one informer.
pub(super) struct InformerMetrics {
    queued: Gauge,
    latency: Histogram,
    version: Gauge,
    objects: Gauge,
    bytes: Gauge,
}

impl InformerMetrics {
    pub(super) fn new(identity: &Identity) -> Self {
        let labels = || identity.labels.clone();
        InformerMetrics {
            queued: gauge!(QUEUED_ITEMS, labels()),
            latency: histogram!(PROCESSING_LATENCY, labels()),
            version: gauge!(STORE_RESOURCE_VERSION, labels()),
            objects: gauge!(STORE_OBJECTS, labels()),
            bytes: gauge!(STORE_BYTES, labels()),
        }
    }

    pub(super) fn queued(&self, deltas: usize) {
        self.queued.set(deltas as f64);
    }

    pub(super) fn processed(&self, took: Duration) {
        self.latency.record(took);
    }

    pub(super) fn stored(&self, version: &str, objects: usize, bytes: usize) {
        self.objects.set(objects as f64);
        self.bytes.set(bytes as f64);
        if let Some(number) = last_digits(version) {
            self.version.set(number as f64);
        }
    }
}

impl Drop for InformerMetrics {
    /// An informer that has ended has nothing to show.
    fn drop(&mut self) {
        for gauge in [&self.queued, &self.objects, &self.bytes] {
            gauge.set(0.0);
        }
    }
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
    pending: Gauge,
    lag: Gauge,
    panics: Counter,
}

impl HandlerMetrics {
    pub(super) fn new(identity: &Identity, handler: &str) -> Self {
        let labels = || {
            let mut labels = identity.labels.clone();
            labels.push(Label::new("handler", handler.to_owned()));
            labels
        };
        HandlerMetrics {
            pending: gauge!(HANDLER_PENDING, labels()),
            lag: gauge!(HANDLER_LAG, labels()),
            panics: counter!(HANDLER_PANICS, labels()),
        }
    }

    pub(super) fn behind(&self, pending: usize, lag: Duration) {
        self.pending.set(pending as f64);
        self.lag.set(lag);
    }

    pub(super) fn panicked(&self) {
        self.panics.increment(1);
    }
}

#[cfg(test)]
mod tests;
