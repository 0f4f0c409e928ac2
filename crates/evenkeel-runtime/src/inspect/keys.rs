//! [`KeyTable`]: the keys that need attention, and how long reconciles take. The caller passes the time; there is no I/O.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_queue::{ItemOutcome, KeyState};
use serde_json::{Value, json};

use super::history::{SourceId, ms};

/// Maximum number of keys that are tracked. A key that fails replaces one that does not.
pub(super) const KEYS: usize = 1024;
/// Maximum number of keys in a report.
pub(super) const REPORTED: usize = 100;
/// Number of recent reconciles per queue from which the percentiles come.
const DURATIONS: usize = 512;

/// Keys that are queued, in flight, delayed or failed for good.
#[derive(Default)]
pub(super) struct KeyTable {
    keys: HashMap<(SourceId, Box<str>), TrackedKey>,
    durations: BTreeMap<SourceId, VecDeque<Duration>>,
}

struct TrackedKey {
    queue: Arc<str>,
    state: TrackedState,
    /// Start of the state.
    since: Duration,
    /// Consecutive failed attempts.
    attempts: u32,
    error: Option<Box<str>>,
    /// Why the key was queued last.
    why: Box<str>,
    /// When a key in flight returns, if it was added with a delay meanwhile.
    returns: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrackedState {
    Ready,
    InFlight,
    Delayed { until: Duration },
    GaveUp,
}

/// How a worker finished a key.
pub(super) struct FinishedKey {
    pub(super) outcome: ItemOutcome,
    pub(super) state: KeyState,
    pub(super) requeue_after: Option<Duration>,
    pub(super) failures: u32,
}

impl KeyTable {
    /// Records an add. A key in flight stays there; it is queued when it is finished.
    pub(super) fn added(
        &mut self,
        id: (SourceId, &str),
        queue: &Arc<str>,
        at: Duration,
        after: Option<Duration>,
        why: &str,
    ) {
        let Some(tracked) = self.track(id, queue, at, false) else { return };
        tracked.why = why.into();
        let until = after.filter(|after| !after.is_zero()).map(|after| at + after);
        if tracked.state == TrackedState::InFlight {
            tracked.returns = until;
            return;
        }
        tracked.state = until.map_or(TrackedState::Ready, |until| TrackedState::Delayed { until });
        tracked.since = at;
    }

    pub(super) fn dequeued(&mut self, id: (SourceId, &str), queue: &Arc<str>, at: Duration, failures: u32) {
        let Some(tracked) = self.track(id, queue, at, failures > 0) else { return };
        (tracked.state, tracked.since, tracked.attempts) = (TrackedState::InFlight, at, failures);
        tracked.returns = None;
    }

    /// Records the error of a failed attempt.
    pub(super) fn failed(&mut self, id: (SourceId, &str), queue: &Arc<str>, at: Duration, error: &str) {
        if let Some(tracked) = self.track(id, queue, at, true) {
            tracked.error = Some(error.into());
        }
    }

    pub(super) fn finished(&mut self, id: (SourceId, &str), at: Duration, finished: &FinishedKey) {
        let key = (id.0, id.1.into());
        let Some(tracked) = self.keys.get_mut(&key) else { return };
        // A parked key is finished as done and ready; it was not reconciled.
        let is_released = finished.outcome == ItemOutcome::Done && finished.state == KeyState::Ready;
        if tracked.state == TrackedState::InFlight && !is_released {
            let durations = self.durations.entry(id.0).or_default();
            if durations.len() >= DURATIONS {
                durations.pop_front();
            }
            durations.push_back(at.saturating_sub(tracked.since));
        }
        tracked.attempts = finished.failures;
        let is_failure = matches!(finished.outcome, ItemOutcome::Failed | ItemOutcome::GaveUp | ItemOutcome::Panicked);
        if finished.failures == 0 && !is_failure {
            tracked.error = None;
        }
        let returns = tracked.returns.take();
        tracked.since = at;
        tracked.state = match (finished.state, finished.requeue_after) {
            (KeyState::Ready, _) => TrackedState::Ready,
            (_, Some(after)) => TrackedState::Delayed { until: at + after },
            (KeyState::Delayed, None) => TrackedState::Delayed { until: returns.unwrap_or(at) },
            _ if finished.outcome == ItemOutcome::GaveUp => TrackedState::GaveUp,
            _ => return drop(self.keys.remove(&key)),
        };
        if !is_failure && tracked.error.is_none() && matches!(tracked.state, TrackedState::Delayed { .. }) {
            tracked.why = "planned by its reconcile".into();
        }
    }

    pub(super) fn remove_source(&mut self, source: SourceId) {
        self.keys.retain(|(of, _), _| *of != source);
        self.durations.remove(&source);
    }

    /// Returns the entry of a key; `None` if the table is full of keys that matter more.
    fn track(
        &mut self,
        id: (SourceId, &str),
        queue: &Arc<str>,
        at: Duration,
        is_failing: bool,
    ) -> Option<&mut TrackedKey> {
        let key = (id.0, Box::from(id.1));
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            let is_calm = |tracked: &TrackedKey| tracked.attempts == 0 && tracked.error.is_none();
            let calm = self.keys.iter().find(|(_, tracked)| is_calm(tracked)).map(|(key, _)| key.clone());
            self.keys.remove(&calm.filter(|_| is_failing)?);
        }
        let new = || TrackedKey {
            queue: Arc::clone(queue),
            state: TrackedState::Ready,
            since: at,
            attempts: 0,
            error: None,
            why: Box::default(),
            returns: None,
        };
        Some(self.keys.entry(key).or_insert_with(new))
    }

    /// Returns the keys that need attention, most urgent first: failing, parked, in flight, ready, delayed. `parked` has queues
    /// and keys.
    pub(super) fn report(&self, parked: &[(Arc<str>, String)]) -> Value {
        let is_parked = |key: &str, tracked: &TrackedKey| {
            tracked.state == TrackedState::InFlight
                && parked.iter().any(|(queue, parked)| **queue == *tracked.queue && parked == key)
        };
        let rank = |is_parked: bool, tracked: &TrackedKey| match tracked.state {
            _ if tracked.error.is_some() => 0,
            _ if is_parked => 1,
            TrackedState::InFlight => 2,
            TrackedState::Ready => 3,
            _ => 4,
        };
        let all = self.keys.iter().map(|((_, key), tracked)| (key, tracked, is_parked(key, tracked)));
        let mut all: Vec<_> = all.collect();
        let due = |tracked: &TrackedKey| match tracked.state {
            TrackedState::Delayed { until } => until,
            _ => tracked.since,
        };
        all.sort_by_key(|(key, tracked, is_parked)| {
            (rank(*is_parked, tracked), Reverse(tracked.attempts), due(tracked), tracked.queue.clone(), (*key).clone())
        });
        let rows = all.iter().take(REPORTED).map(|(key, tracked, is_parked)| {
            let (state, next) = match tracked.state {
                TrackedState::InFlight if *is_parked => ("parked", None),
                TrackedState::InFlight => ("in flight", None),
                TrackedState::GaveUp => ("gave up", None),
                TrackedState::Delayed { until } if tracked.error.is_some() => ("failing", Some(until)),
                TrackedState::Delayed { until } => ("scheduled", Some(until)),
                TrackedState::Ready if tracked.error.is_some() => ("failing", None),
                TrackedState::Ready => ("ready", None),
            };
            json!({
                "key": key, "queue": &*tracked.queue, "state": state, "since": ms(tracked.since), "next": next.map(ms),
                "attempts": tracked.attempts, "error": tracked.error, "why": tracked.why,
            })
        });
        json!({"rows": rows.collect::<Vec<_>>(), "tracked": all.len()})
    }

    /// Returns the durations of recent reconciles of a queue in milliseconds.
    pub(super) fn durations(&self, source: SourceId) -> Value {
        let mut sorted: Vec<Duration> = self.durations.get(&source).into_iter().flatten().copied().collect();
        sorted.sort();
        let at = |share: usize| {
            sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1))).map(|time| ms(*time))
        };
        json!({"count": sorted.len(), "p50": at(50), "p99": at(99), "max": sorted.last().map(|time| ms(*time))})
    }
}

#[cfg(test)]
#[path = "tests/keys.rs"]
mod tests;
