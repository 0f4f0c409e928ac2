//! What is counted and timed, under the names that client-go once had for it, so that existing dashboards work.
//!
//! Everything goes through the facade of the crate `metrics`: install a recorder and it is there.
//!
//! | name | labels | what |
//! |---|---|---|
//! | [`LISTS`] | `name` | lists begun, pages not counted; watches that begin with all objects are lists too |
//! | [`LIST_DURATION`] | `name` | seconds until all objects were there |
//! | [`ITEMS_PER_LIST`] | `name` | how many there were |
//! | [`WATCHES`] | `name` | watches asked for |
//! | [`SHORT_WATCHES`] | `name` | those of them that ended within a second and said nothing |
//! | [`WATCH_DURATION`] | `name` | seconds that watches lasted |
//! | [`ITEMS_PER_WATCH`] | `name` | events that came of a watch |
//! | [`LAST_RESOURCE_VERSION`] | `name` | the version that was reached, if it is a number |
//! | [`RELISTS`] | `name` | times that all objects had to be asked for again after a failure |
//! | [`DECODE_FAILURES`] | `name` | objects and events that could not be read |
//! | [`LAST_HEARD`] | `name` | when the server was last heard, in seconds since 1970: how stale the copy may be |
//!
//! `name` is the reflector's, which is the informer's. Informers have these too, each with the labels `name`, `group`,
//! `version` and `resource`, and those of handlers with `handler` besides:
//!
//! | name | what |
//! |---|---|
//! | [`QUEUED_ITEMS`] | deltas that wait to be applied |
//! | [`PROCESSING_LATENCY`] | seconds that it took to apply a batch of them and to hand out the notifications |
//! | [`STORE_RESOURCE_VERSION`] | the version that the store has reached, its last fifteen digits |
//! | [`STORE_OBJECTS`], [`STORE_BYTES`] | objects in the store, and the bytes of their payloads |
//! | [`HANDLER_PENDING`] | notifications that a handler has yet to hear |
//! | [`HANDLER_LAG`] | seconds that the oldest of them has been waiting |
//! | [`HANDLER_PANICS`] | calls of a handler that panicked |
//!
//! The recorder has to be there before the informer is made.

use std::sync::Once;
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

pub use crate::informer::metrics::{
    HANDLER_LAG, HANDLER_PANICS, HANDLER_PENDING, LATENCY_BUCKETS, PROCESSING_LATENCY, QUEUED_ITEMS, STORE_BYTES,
    STORE_OBJECTS, STORE_RESOURCE_VERSION,
};

/// Counts lists.
pub const LISTS: &str = "reflector_lists_total";
/// Times lists.
pub const LIST_DURATION: &str = "reflector_list_duration_seconds";
/// Measures lists.
pub const ITEMS_PER_LIST: &str = "reflector_items_per_list";
/// Counts watches.
pub const WATCHES: &str = "reflector_watches_total";
/// Counts watches that ended at once.
pub const SHORT_WATCHES: &str = "reflector_short_watches_total";
/// Times watches.
pub const WATCH_DURATION: &str = "reflector_watch_duration_seconds";
/// Measures watches.
pub const ITEMS_PER_WATCH: &str = "reflector_items_per_watch";
/// Shows the version that was reached.
pub const LAST_RESOURCE_VERSION: &str = "reflector_last_resource_version";
/// Counts how often all objects had to be asked for again.
pub const RELISTS: &str = "reflector_relists_total";
/// Counts objects and events that could not be read.
pub const DECODE_FAILURES: &str = "reflector_decode_failures_total";
/// Shows when the server was last heard.
pub const LAST_HEARD: &str = "reflector_last_heard_timestamp_seconds";

/// Tells the recorder what the metrics mean. The first reflector of the process does this by itself; call it if the
/// recorder was installed later.
pub fn describe() {
    crate::informer::metrics::describe();
    describe_counter!(LISTS, Unit::Count, "Lists begun, by reflector.");
    describe_histogram!(LIST_DURATION, Unit::Seconds, "Time until all objects of a list were there.");
    describe_histogram!(ITEMS_PER_LIST, Unit::Count, "Objects per list.");
    describe_counter!(WATCHES, Unit::Count, "Watches asked for, by reflector.");
    describe_counter!(SHORT_WATCHES, Unit::Count, "Watches that ended within a second without an event.");
    describe_histogram!(WATCH_DURATION, Unit::Seconds, "Time that watches lasted.");
    describe_histogram!(ITEMS_PER_WATCH, Unit::Count, "Events per watch.");
    describe_gauge!(LAST_RESOURCE_VERSION, Unit::Count, "The resource version that was reached.");
    describe_counter!(RELISTS, Unit::Count, "Times that all objects had to be asked for again after a failure.");
    describe_counter!(DECODE_FAILURES, Unit::Count, "Objects and events that could not be read.");
    describe_gauge!(LAST_HEARD, Unit::Seconds, "When the server was last heard, in seconds since 1970.");
}

/// The metrics of one reflector.
pub(crate) struct ReflectorMetrics {
    pub(crate) lists: Counter,
    pub(crate) relists: Counter,
    pub(crate) watches: Counter,
    pub(crate) short_watches: Counter,
    pub(crate) decode_failures: Counter,
    list_duration: Histogram,
    items_per_list: Histogram,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    last_version: Gauge,
    last_heard: Gauge,
}

impl ReflectorMetrics {
    pub(crate) fn new(name: &str) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        let name = || SharedString::from_owned(name.to_owned());
        ReflectorMetrics {
            lists: counter!(LISTS, "name" => name()),
            relists: counter!(RELISTS, "name" => name()),
            watches: counter!(WATCHES, "name" => name()),
            short_watches: counter!(SHORT_WATCHES, "name" => name()),
            decode_failures: counter!(DECODE_FAILURES, "name" => name()),
            list_duration: histogram!(LIST_DURATION, "name" => name()),
            items_per_list: histogram!(ITEMS_PER_LIST, "name" => name()),
            watch_duration: histogram!(WATCH_DURATION, "name" => name()),
            items_per_watch: histogram!(ITEMS_PER_WATCH, "name" => name()),
            last_version: gauge!(LAST_RESOURCE_VERSION, "name" => name()),
            last_heard: gauge!(LAST_HEARD, "name" => name()),
        }
    }

    /// All objects are there.
    pub(crate) fn listed(&self, items: usize, took: Duration) {
        self.items_per_list.record(items as f64);
        self.list_duration.record(took);
    }

    /// A watch is over.
    pub(crate) fn watched(&self, events: u64, lasted: Duration) {
        self.items_per_watch.record(events as f64);
        self.watch_duration.record(lasted);
    }

    /// The server was heard, and the copy is at this version.
    pub(crate) fn heard(&self, version: &str) {
        if let Ok(number) = version.parse::<u64>() {
            self.last_version.set(number as f64);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a dashboard compares this with its own clock; nothing here does"
        )]
        let now = std::time::SystemTime::now();
        if let Ok(since) = now.duration_since(std::time::UNIX_EPOCH) {
            self.last_heard.set(since);
        }
    }
}
