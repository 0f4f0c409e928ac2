//! [`Lane`]: an informer or a queue that is looked at, and not kept alive.

use std::any::Any;
use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_cache::SharedInformer;
use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::reflector::ReflectorPhase;
use evenkeel_core::ResourceInfo;
use evenkeel_queue::{Key, QueueStats, WorkQueue};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ledger::{self, LaneId, Ledger, TEXT_LENGTH, ms};
use super::taps::{InformerTap, QueueTap};
use super::{Inner, Moments};
use crate::health::one_line;

/// What is seen when somebody looks; `None` when it is gone.
type Look = dyn Fn(&Moments) -> Option<Value> + Send + Sync;

/// Whether a handle is one of the same thing.
type Is = dyn Fn(&dyn Any) -> bool + Send + Sync;

/// An informer or a queue.
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) name: Arc<str>,
    pub(super) is_queue: bool,
    pub(super) look: Arc<Look>,
    is: Box<Is>,
    /// What has the ledger told. It ends when this is dropped.
    _observation: Box<dyn Any + Send + Sync>,
}

impl Lane {
    pub(super) fn is(&self, handle: &dyn Any) -> bool {
        (self.is)(handle)
    }

    /// Adds what the ledger knows to what was seen.
    pub(super) fn complete(&self, seen: &mut Value, ledger: &Ledger) {
        seen["counts"] = json!(ledger.counts(self.id));
        for handler in seen["handlers"].as_array_mut().into_iter().flatten() {
            let feeds = ledger.fed_by(self.id, handler["name"].as_str().unwrap_or_default());
            handler["feeds"] = json!(feeds);
        }
    }

    pub(super) fn informer<K: 'static>(
        id: LaneId,
        name: Arc<str>,
        informer: &SharedInformer<K>,
        inspector: Weak<Inner>,
    ) -> Self {
        let info = Arc::clone(informer.resource());
        let tap = InformerTap { inspector, lane: id, name: Arc::clone(&name), kind: info.kind().into() };
        let observation = informer.observe(tap);
        let weak = informer.downgrade();
        let (its_name, itself) = (Arc::clone(&name), weak.clone());
        let look = move |moments: &Moments| {
            let status = weak.upgrade()?.status();
            Some(informer_report(&its_name, &info, &status, moments))
        };
        let is = move |other: &dyn Any| {
            other.downcast_ref::<SharedInformer<K>>().is_some_and(|other| itself.ptr_eq(&other.downgrade()))
        };
        Lane { id, name, is_queue: false, look: Arc::new(look), is: Box::new(is), _observation: Box::new(observation) }
    }

    pub(super) fn queue<K: Key + Display>(
        id: LaneId,
        name: Arc<str>,
        queue: &WorkQueue<K>,
        inspector: Weak<Inner>,
    ) -> Self {
        let observation = queue.observe(QueueTap { inspector, lane: id, name: Arc::clone(&name) });
        let weak = queue.downgrade();
        let (its_name, itself) = (Arc::clone(&name), weak.clone());
        let look = move |moments: &Moments| {
            let queue = weak.upgrade()?;
            Some(queue_report(&its_name, &queue.stats(), queue.is_shutting_down(), moments))
        };
        let is = move |other: &dyn Any| {
            other.downcast_ref::<WorkQueue<K>>().is_some_and(|other| itself.ptr_eq(&other.downgrade()))
        };
        Lane { id, name, is_queue: true, look: Arc::new(look), is: Box::new(is), _observation: Box::new(observation) }
    }
}

fn informer_report(name: &str, info: &ResourceInfo, status: &InformerStatus, moments: &Moments) -> Value {
    let reflector = &status.reflector;
    let (watch, retry_at) = match reflector.phase {
        _ if status.is_stopped => ("stopped", None),
        _ if !status.is_started => ("not started", None),
        ReflectorPhase::Listing => ("listing", None),
        ReflectorPhase::Watching => ("watching", None),
        ReflectorPhase::Waiting { until } => ("waiting", Some(until)),
        _ => ("idle", None),
    };
    let handlers: Value = status
        .handlers
        .iter()
        .map(|(name, lag)| {
            json!({"name": ledger::name(name), "pending": lag.pending, "since": lag.since.map(|at| moments.ms(at))})
        })
        .collect();
    let last_error = reflector.last_error.as_ref().map(|error| one_line(&error.message, TEXT_LENGTH));
    json!({
        "name": name,
        "kind": info.kind(),
        "watch": watch,
        "retry_at": retry_at.map(|at| moments.ms(at)),
        "synced": status.has_synced,
        "objects": status.objects,
        "version": ledger::name(&status.store_resource_version),
        "queued": status.queued,
        "last_heard": reflector.last_heard.map(|at| moments.ms(at)),
        "relists": reflector.lists.saturating_sub(1),
        "last_error": last_error,
        "handlers": handlers,
    })
}

fn queue_report(name: &str, stats: &QueueStats, is_shutting_down: bool, moments: &Moments) -> Value {
    // Since when something is so does not change while nothing happens; for how long it is does. The queue has read the clock
    // a moment earlier, so what is finer than a tenth of a second would change all the time.
    let since = |age: Option<Duration>| {
        let since = age.map(|age| moments.now.saturating_duration_since(moments.began).saturating_sub(age));
        since.map(|since| since.as_millis() as u64 / 100 * 100)
    };
    json!({
        "name": name,
        "ready": stats.ready,
        "processing": stats.in_flight,
        "waiting": stats.delayed,
        "failing": stats.failing,
        "retries": stats.retries,
        "longest_running": since(stats.longest_running),
        "shutting_down": is_shutting_down,
    })
}

impl Moments {
    /// Milliseconds since the inspector began.
    fn ms(&self, at: Instant) -> Value {
        ms(at.saturating_duration_since(self.began))
    }
}
