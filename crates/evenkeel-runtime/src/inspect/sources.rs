//! [`ObservedSource`]: an informer or a queue, observed through a weak handle.

use std::any::Any;
use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::informer::ReflectorPhase;
use evenkeel_core::{Obj, ResourceInfo};
use evenkeel_queue::{Key, QueueStats, WorkQueue};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::history::{self, RecentHistory, SourceId, TEXT_LENGTH, ms};
use super::observers::{InformerObserver, LISTED, QueueObserver};
use super::{InspectorInner, ReportClock};
use crate::health::one_line;

/// Reports the current state; `None` if the source was dropped.
type ReportFn = dyn Fn(&ReportClock) -> Option<Value> + Send + Sync;

/// Returns whether a handle refers to the same informer or queue.
type IsSameFn = dyn Fn(&dyn Any) -> bool + Send + Sync;

type StoredFn = dyn Fn(&str) -> Option<Box<str>> + Send + Sync;
type PresentFn = dyn Fn() -> Vec<(Box<str>, Box<str>)> + Send + Sync;

/// An observed informer or queue.
pub(super) struct ObservedSource {
    pub(super) id: SourceId,
    pub(super) name: Arc<str>,
    pub(super) is_queue: bool,
    pub(super) report: Arc<ReportFn>,
    /// Returns the version of an object in the store of an informer.
    pub(super) stored: Option<Box<StoredFn>>,
    /// Returns objects that the informer has listed already, with their versions.
    pub(super) present: Box<PresentFn>,
    is_same: Box<IsSameFn>,
    /// Guard of the observer; dropping it unregisters the observer.
    _observation: Box<dyn Any + Send + Sync>,
}

impl ObservedSource {
    pub(super) fn is_same(&self, handle: &dyn Any) -> bool {
        (self.is_same)(handle)
    }

    /// Adds counters and fed queues from the history to a report.
    pub(super) fn complete(&self, report: &mut Value, history: &RecentHistory) {
        report["counts"] = json!(history.counts(self.id));
        if self.is_queue {
            report["durations"] = history.keys.durations(self.id);
        }
        for handler in report["handlers"].as_array_mut().into_iter().flatten() {
            let feeds = history.queues_fed_by(self.id, handler["name"].as_str().unwrap_or_default());
            handler["feeds"] = json!(feeds);
        }
    }

    pub(super) fn informer<K: 'static>(
        id: SourceId,
        name: Arc<str>,
        informer: &SharedInformer<K>,
        inspector: Weak<InspectorInner>,
    ) -> Self {
        let info = Arc::clone(informer.resource());
        let observer = InformerObserver { inspector, source: id, name: Arc::clone(&name), kind: info.kind().into() };
        let observation = informer.observe(observer);
        let weak = informer.downgrade();
        let (shown_name, own) = (Arc::clone(&name), weak.clone());
        let report = move |clock: &ReportClock| {
            let status = weak.upgrade()?.status();
            Some(informer_report(&shown_name, &info, &status, clock))
        };
        let (reading, listing) = (informer.downgrade(), informer.downgrade());
        let stored = move |key: &str| {
            let object = reading.upgrade()?.indexer().get(key)?;
            Some(history::name(object.resource_version()))
        };
        let present = move || {
            let Some(informer) = listing.upgrade() else { return Vec::new() };
            let objects = informer.indexer().list();
            let described =
                |object: &Obj<K>| (history::name(object.key().as_str()), history::name(object.resource_version()));
            objects.iter().take(LISTED).map(described).collect()
        };
        let is_same = move |other: &dyn Any| {
            other.downcast_ref::<SharedInformer<K>>().is_some_and(|other| own.ptr_eq(&other.downgrade()))
        };
        ObservedSource {
            id,
            name,
            is_queue: false,
            report: Arc::new(report),
            stored: Some(Box::new(stored)),
            present: Box::new(present),
            is_same: Box::new(is_same),
            _observation: Box::new(observation),
        }
    }

    pub(super) fn queue<K: Key + Display>(
        id: SourceId,
        name: Arc<str>,
        queue: &WorkQueue<K>,
        inspector: Weak<InspectorInner>,
    ) -> Self {
        let observation = queue.observe(QueueObserver { inspector, source: id, name: Arc::clone(&name) });
        let weak = queue.downgrade();
        let (shown_name, own) = (Arc::clone(&name), weak.clone());
        let report = move |clock: &ReportClock| {
            let queue = weak.upgrade()?;
            Some(queue_report(&shown_name, &queue.stats(), queue.is_shutting_down(), clock))
        };
        let is_same = move |other: &dyn Any| {
            other.downcast_ref::<WorkQueue<K>>().is_some_and(|other| own.ptr_eq(&other.downgrade()))
        };
        ObservedSource {
            id,
            name,
            is_queue: true,
            report: Arc::new(report),
            stored: None,
            present: Box::new(Vec::new),
            is_same: Box::new(is_same),
            _observation: Box::new(observation),
        }
    }
}

fn informer_report(name: &str, info: &ResourceInfo, status: &InformerStatus, clock: &ReportClock) -> Value {
    let reflector = &status.reflector;
    let (watch, retry_at) = match reflector.phase {
        _ if status.is_stopped => ("stopped", None),
        _ if !status.is_started => ("not started", None),
        ReflectorPhase::Listing => ("listing", None),
        ReflectorPhase::Watching => ("watching", None),
        ReflectorPhase::Waiting { until } => ("backing off", Some(until)),
        _ => ("idle", None),
    };
    let handlers: Value = status
        .handlers
        .iter()
        .map(|(name, lag)| {
            json!({"name": history::name(name), "pending": lag.pending, "since": lag.since.map(|at| clock.ms(at))})
        })
        .collect();
    let last_error = reflector.last_error.as_ref().map(|error| one_line(&error.message, TEXT_LENGTH));
    json!({
        "name": name,
        "kind": info.kind(),
        "watch": watch,
        "retry_at": retry_at.map(|at| clock.ms(at)),
        "synced": status.has_synced,
        "objects": status.objects,
        "version": history::name(&status.store_resource_version),
        "queued": status.queued,
        "last_received": reflector.last_received.map(|at| clock.ms(at)),
        "relists": reflector.lists.saturating_sub(1),
        "last_error": last_error,
        "consistency": status.consistency.as_ref().map(|report| one_line(&report.to_string(), TEXT_LENGTH)),
        "handlers": handlers,
    })
}

fn queue_report(name: &str, stats: &QueueStats, is_shutting_down: bool, clock: &ReportClock) -> Value {
    // Reports start times, which are constant while nothing happens; ages would change in every report. The queue
    // reads the clock slightly earlier, so the start is rounded to 100 ms to stay constant.
    let since = |age: Option<Duration>| {
        let since = age.map(|age| clock.now.saturating_duration_since(clock.start).saturating_sub(age));
        since.map(|since| since.as_millis() as u64 / 100 * 100)
    };
    json!({
        "name": name,
        "ready": stats.ready,
        "in_flight": stats.in_flight,
        "delayed": stats.delayed,
        "failing": stats.failing,
        "longest_running": since(stats.longest_running),
        "shutting_down": is_shutting_down,
    })
}

impl ReportClock {
    /// Milliseconds since the inspector was created.
    fn ms(&self, at: Instant) -> Value {
        ms(at.saturating_duration_since(self.start))
    }
}
