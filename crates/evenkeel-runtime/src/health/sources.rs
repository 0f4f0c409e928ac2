//! [`Source`]: a component that diagnostics report on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::informer::ReflectorPhase;
use evenkeel_core::ResourceInfo;
use evenkeel_queue::{Key, QueueStats, WorkQueue};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::diagnostics::seconds;

pub(super) type Look = dyn Fn(Instant) -> Value + Send + Sync;

/// A component that [`Diagnostics`](super::Diagnostics) report on, by section and name.
#[derive(Clone)]
#[must_use = "it is looked at when it is added to diagnostics"]
pub struct Source {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) look: Arc<Look>,
}

impl Source {
    /// Returns a user-defined source. The closure is called for each report and should only read. The section `errors`
    /// is reserved.
    pub fn new(
        section: impl Into<String>,
        name: impl Into<String>,
        look: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        Source { section: section.into(), name: name.into(), look: Arc::new(move |_| look()) }
    }

    /// Returns a source that is given the time.
    pub(crate) fn timed(section: &str, name: &str, look: impl Fn(Instant) -> Value + Send + Sync + 'static) -> Self {
        Source { section: section.to_owned(), name: name.to_owned(), look: Arc::new(look) }
    }

    /// Returns an informer as a source, in the section `informers`: object count, staleness and handler lag.
    pub fn informer<K: 'static>(informer: &SharedInformer<K>) -> Self {
        let name = informer.name().to_owned();
        let informer = informer.clone();
        let look = move |now| informer_report(informer.resource(), &informer.status(), now);
        Source { section: "informers".to_owned(), name, look: Arc::new(look) }
    }

    /// Returns a queue as a source, in the section `queues`: depth and ages. Queues without a name keep no ages.
    pub fn queue<K: Key>(name: impl Into<String>, queue: &WorkQueue<K>) -> Self {
        let queue = queue.clone();
        let look = move |_| queue_report(&queue.stats(), queue.is_shutting_down());
        Source { section: "queues".to_owned(), name: name.into(), look: Arc::new(look) }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("section", &self.section).field("name", &self.name).finish_non_exhaustive()
    }
}

pub(crate) fn informer_report(info: &ResourceInfo, status: &InformerStatus, now: Instant) -> Value {
    let ago = |time: Instant| seconds(now.saturating_duration_since(time));
    let reflector = &status.reflector;
    let phase = match reflector.phase {
        ReflectorPhase::Idle => "idle",
        ReflectorPhase::Listing => "listing",
        ReflectorPhase::Watching => "watching",
        ReflectorPhase::Waiting { .. } => "waiting to try again",
        _ => "unknown",
    };
    let handlers: Map<String, Value> = status
        .handlers
        .iter()
        .map(|(name, lag)| (name.clone(), json!({"pending": lag.pending, "lag_seconds": lag.since.map(ago)})))
        .collect();
    let last_error = reflector.last_error.as_ref();
    let namespaces: Map<String, Value> = status
        .namespaces
        .iter()
        .map(|(name, status)| {
            let report = json!({
                "synced": status.has_synced,
                "resource_version": status.store_resource_version,
                "forbidden": status.forbidden.as_ref().map(|message| super::diagnostics::one_line(message, 1024)),
            });
            (name.clone(), report)
        })
        .collect();
    json!({
        "kind": info.kind(),
        "api_version": info.api_version(),
        "started": status.is_started,
        "stopped": status.is_stopped,
        "synced": status.has_synced,
        "phase": phase,
        "objects": status.objects,
        "resource_version": status.store_resource_version,
        "last_sync_resource_version": reflector.last_sync_resource_version,
        "queued": status.queued,
        "last_received_seconds_ago": reflector.last_received.map(ago),
        "lists": reflector.lists,
        "relists": reflector.lists.saturating_sub(1),
        "watches": reflector.watches,
        "short_watches": reflector.short_watches,
        "failures": reflector.failures,
        "decode_failures": reflector.decode_failures,
        "stalls": reflector.stalls,
        "listed": reflector.listed,
        "consistency": status.consistency.as_ref().map(ToString::to_string),
        "last_error": last_error.map(|error| json!({
            "message": super::diagnostics::one_line(&error.message, 1024),
            "seconds_ago": ago(error.at),
        })),
        "handlers": handlers,
        "namespaces": namespaces,
    })
}

pub(crate) fn queue_report(stats: &QueueStats, is_shutting_down: bool) -> Value {
    let age = |age: Option<Duration>| age.map(seconds);
    json!({
        "ready": stats.ready,
        "depth": stats.depth,
        "processing": stats.in_flight,
        "waiting": stats.delayed,
        "failing": stats.failing,
        "adds": stats.adds,
        "retries": stats.retries,
        "oldest_ready_seconds": age(stats.oldest_ready),
        "longest_running_seconds": age(stats.longest_running),
        "shutting_down": is_shutting_down,
    })
}
