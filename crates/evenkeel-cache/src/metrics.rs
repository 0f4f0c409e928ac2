//! The metrics of the cache, under client-go's names, so that existing dashboards work.
//!
//! All metrics go through the facade of the crate `metrics`. The recorder may be installed before or after an informer is
//! built.
//!
//! | name | labels | what |
//! |---|---|---|
//! | [`LISTS`] | `name` | lists, WatchLists included; pages do not count |
//! | [`LIST_DURATION`] | `name` | seconds until the list was complete |
//! | [`ITEMS_PER_LIST`] | `name` | objects per list |
//! | [`WATCHES`] | `name` | watches |
//! | [`SHORT_WATCHES`] | `name` | watches that ended within a second without an event |
//! | [`WATCH_DURATION`] | `name` | duration of watches in seconds |
//! | [`ITEMS_PER_WATCH`] | `name` | events per watch |
//! | [`LAST_RESOURCE_VERSION`] | `name` | the resource version that was reached, if it is a number |
//! | [`RELISTS`] | `name` | relists after a failure |
//! | [`DECODE_FAILURES`] | `name` | unreadable objects and events |
//! | [`STALLS`] | `name` | reports of requests without progress for 10 s, 30 s, 70 s, … |
//! | [`LAST_RECEIVED`] | `name` | when the server last sent something, in seconds since 1970 |
//!
//! `name` is the reflector's, which is the informer's. Informers have these too, each with the labels `name`, `group`,
//! `version` and `resource`, and those of handlers with `handler` besides:
//!
//! | name | what |
//! |---|---|
//! | [`QUEUED_ITEMS`] | deltas in the queue |
//! | [`PROCESSING_LATENCY`] | seconds to apply a batch of deltas and distribute the notifications |
//! | [`STORE_RESOURCE_VERSION`] | the last 15 digits of the store's resource version |
//! | [`STORE_OBJECTS`], [`STORE_BYTES`] | objects in the store, and the bytes of their payloads |
//! | [`CONSISTENCY_CHECKS`] | consistency checks, with the label `result`: `consistent`, `inconsistent`, `inconclusive` |
//! | [`HANDLER_PENDING`] | pending notifications of a handler |
//! | [`HANDLER_LAG`] | age of the oldest pending notification in seconds |
//! | [`HANDLER_PANICS`] | panics of a handler |
//! | [`VIEW_FAILURES`] | objects without a value in a view, with the label `view` |
//!
//! Informers of [shards](crate::InformerOptions::shards) have these, with the label `resource`, such as `deployments.apps`:
//!
//! | name | what |
//! |---|---|
//! | [`OUT_OF_RANGE`] | received objects that were dropped because they are out of range |
//! | [`SHARD_SUPPORT`] | whether the server filters by shard selector: 1 if it tells so, -1 if it does not, 0 if that is not known |
//!
//! The recorder has to be there before the informer is made. [`evenkeel_core::decoded_cache`] has the metrics of the values that
//! `typed` decoded.

use std::fmt;
use std::sync::atomic::{AtomicI8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram, with_recorder,
};

use crate::reflector::shards::ShardSupport;

pub use crate::informer::metrics::{
    CONSISTENCY_CHECKS, HANDLER_LAG, HANDLER_PANICS, HANDLER_PENDING, LATENCY_BUCKETS, PROCESSING_LATENCY,
    QUEUED_ITEMS, STORE_BYTES, STORE_OBJECTS, STORE_RESOURCE_VERSION, VIEW_FAILURES,
};

/// Counts lists.
pub const LISTS: &str = "reflector_lists_total";
/// Histogram of the duration of lists.
pub const LIST_DURATION: &str = "reflector_list_duration_seconds";
/// Histogram of objects per list.
pub const ITEMS_PER_LIST: &str = "reflector_items_per_list";
/// Counts watches.
pub const WATCHES: &str = "reflector_watches_total";
/// Counts very short watches.
pub const SHORT_WATCHES: &str = "reflector_short_watches_total";
/// Histogram of the duration of watches.
pub const WATCH_DURATION: &str = "reflector_watch_duration_seconds";
/// Histogram of events per watch.
pub const ITEMS_PER_WATCH: &str = "reflector_items_per_watch";
/// Gauge of the resource version that was reached.
pub const LAST_RESOURCE_VERSION: &str = "reflector_last_resource_version";
/// Counts relists after a failure.
pub const RELISTS: &str = "reflector_relists_total";
/// Counts unreadable objects and events.
pub const DECODE_FAILURES: &str = "reflector_decode_failures_total";
/// Counts reports of requests without progress.
pub const STALLS: &str = "reflector_stalls_total";
/// Gauge of the time of the last response or event of the server.
pub const LAST_RECEIVED: &str = "reflector_last_received_timestamp_seconds";

/// Counts received objects that are out of range.
pub const OUT_OF_RANGE: &str = "evenkeel_ring_out_of_range_total";
/// Gauge of the server's support of shard selectors.
pub const SHARD_SUPPORT: &str = "evenkeel_ring_shard_support";

/// Describes the metrics to the recorder. Reflectors do this themselves.
pub fn describe() {
    crate::informer::metrics::describe();
    evenkeel_core::decoded_cache::describe();
    describe_counter!(LISTS, Unit::Count, "Lists, by reflector.");
    describe_histogram!(LIST_DURATION, Unit::Seconds, "Time until a list was complete.");
    describe_histogram!(ITEMS_PER_LIST, Unit::Count, "Objects per list.");
    describe_counter!(WATCHES, Unit::Count, "Watches, by reflector.");
    describe_counter!(SHORT_WATCHES, Unit::Count, "Watches that ended within a second without an event.");
    describe_histogram!(WATCH_DURATION, Unit::Seconds, "Duration of watches.");
    describe_histogram!(ITEMS_PER_WATCH, Unit::Count, "Events per watch.");
    describe_gauge!(LAST_RESOURCE_VERSION, Unit::Count, "The resource version that was reached.");
    describe_counter!(RELISTS, Unit::Count, "Relists after a failure.");
    describe_counter!(DECODE_FAILURES, Unit::Count, "Unreadable objects and events.");
    describe_counter!(STALLS, Unit::Count, "Reports of requests without progress.");
    describe_gauge!(LAST_RECEIVED, Unit::Seconds, "When the server last sent something, in seconds since 1970.");
    describe_counter!(OUT_OF_RANGE, Unit::Count, "Received objects that were dropped because they are out of range.");
    describe_gauge!(
        SHARD_SUPPORT,
        Unit::Count,
        "Whether the server filters by shard selector: 1 yes, -1 no, 0 unknown."
    );
}

/// Handles of metrics for the recorder that is installed.
///
/// A program may install its recorder after it built its informers. A recorder can be installed once, so the handles are made
/// at most twice: when they are first used, and when the recorder is another one than then.
pub(crate) struct PerRecorder<T> {
    make: Box<dyn Fn() -> T + Send + Sync>,
    first: OnceLock<(usize, T)>,
    later: OnceLock<T>,
}

impl<T> PerRecorder<T> {
    pub(crate) fn new(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        PerRecorder { make: Box::new(make), first: OnceLock::new(), later: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> &T {
        if let Some(handles) = self.later.get() {
            return handles;
        }
        let recorder = with_recorder(|recorder| std::ptr::from_ref(recorder).addr());
        let (known, handles) = self.first.get_or_init(|| (recorder, (self.make)()));
        if *known == recorder { handles } else { self.later.get_or_init(|| (self.make)()) }
    }
}

impl<T> fmt::Debug for PerRecorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRecorder").finish_non_exhaustive()
    }
}

/// The counters of a reflector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReflectorCounter {
    Lists,
    Relists,
    Watches,
    ShortWatches,
    DecodeFailures,
    Stalls,
}

/// The names of the counters, in the order of [`ReflectorCounter`].
const COUNTERS: [&str; 6] = [LISTS, RELISTS, WATCHES, SHORT_WATCHES, DECODE_FAILURES, STALLS];

/// The metrics of one reflector.
pub(crate) struct ReflectorMetrics {
    /// The counts so far, for a recorder that is installed late.
    totals: Arc<[AtomicU64; 6]>,
    handles: PerRecorder<ReflectorHandles>,
}

struct ReflectorHandles {
    counters: [Counter; 6],
    list_duration: Histogram,
    items_per_list: Histogram,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    last_version: Gauge,
    last_received: Gauge,
}

impl ReflectorMetrics {
    pub(crate) fn new(name: &str) -> Self {
        let name = SharedString::from_owned(name.to_owned());
        let totals: Arc<[AtomicU64; 6]> = Arc::default();
        let known = Arc::clone(&totals);
        let handles = PerRecorder::new(move || {
            describe();
            let name = || name.clone();
            let handles = ReflectorHandles {
                counters: COUNTERS.map(|counter| counter!(counter, "name" => name())),
                list_duration: histogram!(LIST_DURATION, "name" => name()),
                items_per_list: histogram!(ITEMS_PER_LIST, "name" => name()),
                watch_duration: histogram!(WATCH_DURATION, "name" => name()),
                items_per_watch: histogram!(ITEMS_PER_WATCH, "name" => name()),
                last_version: gauge!(LAST_RESOURCE_VERSION, "name" => name()),
                last_received: gauge!(LAST_RECEIVED, "name" => name()),
            };
            for (counter, total) in handles.counters.iter().zip(&*known) {
                counter.increment(total.load(Ordering::Relaxed));
            }
            handles
        });
        ReflectorMetrics { totals, handles }
    }

    /// Adds one to a counter.
    pub(crate) fn increment(&self, counter: ReflectorCounter) {
        let handles = self.handles.get();
        self.totals[counter as usize].fetch_add(1, Ordering::Relaxed);
        handles.counters[counter as usize].increment(1);
    }

    /// Records a complete list.
    pub(crate) fn listed(&self, items: usize, took: Duration) {
        self.handles.get().items_per_list.record(items as f64);
        self.handles.get().list_duration.record(took);
    }

    /// Records the end of a watch.
    pub(crate) fn watched(&self, events: u64, lasted: Duration) {
        self.handles.get().items_per_watch.record(events as f64);
        self.handles.get().watch_duration.record(lasted);
    }

    /// Records that the server sent something, and the version that was reached.
    pub(crate) fn received(&self, version: &str) {
        if let Ok(number) = version.parse::<u64>() {
            self.handles.get().last_version.set(number as f64);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a dashboard compares this with its own clock; nothing here does"
        )]
        let now = std::time::SystemTime::now();
        if let Ok(since) = now.duration_since(std::time::UNIX_EPOCH) {
            self.handles.get().last_received.set(since);
        }
    }
}

/// The metrics of an informer of shards.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    values: Arc<ShardValues>,
    handles: PerRecorder<(Counter, Gauge)>,
}

/// The values so far, for a recorder that is installed late.
#[derive(Debug, Default)]
struct ShardValues {
    dropped: AtomicU64,
    support: AtomicI8,
}

impl ShardMetrics {
    pub(crate) fn new(resource: &str) -> Self {
        let resource = SharedString::from_owned(resource.to_owned());
        let values: Arc<ShardValues> = Arc::default();
        let known = Arc::clone(&values);
        let handles = PerRecorder::new(move || {
            describe();
            let dropped = counter!(OUT_OF_RANGE, "resource" => resource.clone());
            dropped.increment(known.dropped.load(Ordering::Relaxed));
            let support = gauge!(SHARD_SUPPORT, "resource" => resource.clone());
            support.set(f64::from(known.support.load(Ordering::Relaxed)));
            (dropped, support)
        });
        ShardMetrics { values, handles }
    }

    /// Makes the metrics visible before they change.
    pub(crate) fn register(&self) {
        self.handles.get();
    }

    /// Counts an object out of range.
    pub(crate) fn dropped(&self) {
        let (dropped, _) = self.handles.get();
        self.values.dropped.fetch_add(1, Ordering::Relaxed);
        dropped.increment(1);
    }

    /// Sets the support of the server.
    pub(crate) fn support(&self, support: ShardSupport) {
        let value = match support {
            ShardSupport::Unknown => 0,
            ShardSupport::Confirmed => 1,
            ShardSupport::Absent => -1,
        };
        self.values.support.store(value, Ordering::Relaxed);
        let (_, gauge) = self.handles.get();
        gauge.set(f64::from(value));
    }
}
