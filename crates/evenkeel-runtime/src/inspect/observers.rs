//! Observers of informers and queues, which record steps in the [`RecentHistory`].

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_cache::Event;
use evenkeel_cache::delta::Delta;
use evenkeel_cache::informer::observe::{InformerEvent, Observer};
use evenkeel_core::Untyped;
use evenkeel_queue as queue;
use evenkeel_queue::{ItemOutcome, KeyState};

use super::InspectorInner;
use super::history::{self, Cause, KeyStage, KeyStep, RecentHistory, SourceId};
use super::keys::FinishedKey;
use crate::enqueue::event_name;

/// Maximum number of objects of one list whose receipt is recorded as a step.
pub(super) const LISTED: usize = 256;

thread_local! {
    /// The notification that a handler on this thread is processing, per inspector. It is the cause of the steps that
    /// the handler takes.
    static CURRENT_CAUSE: RefCell<Vec<(Weak<InspectorInner>, Arc<Cause>)>> = const { RefCell::new(Vec::new()) };
}

/// Sets or clears the notification that a handler on this thread is processing. Also removes entries of dropped
/// inspectors.
fn set_current_cause(inspector: &Weak<InspectorInner>, cause: Option<Cause>) {
    CURRENT_CAUSE.with_borrow_mut(|all| {
        all.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(inspector));
        all.extend(cause.map(|cause| (Weak::clone(inspector), Arc::new(cause))));
    });
}

/// Returns the notification that a handler on this thread is processing.
fn current_cause(inspector: &Weak<InspectorInner>) -> Option<Arc<Cause>> {
    CURRENT_CAUSE
        .with_borrow(|all| all.iter().find(|(other, _)| other.ptr_eq(inspector)).map(|(_, cause)| Arc::clone(cause)))
}

/// Observes an informer. Does not keep the inspector alive.
pub(super) struct InformerObserver {
    pub(super) inspector: Weak<InspectorInner>,
    pub(super) source: SourceId,
    pub(super) name: Arc<str>,
    pub(super) kind: Arc<str>,
}

impl InformerObserver {
    fn step(&self, stage: KeyStage, key: &str, version: &str, text: impl Into<String>) -> KeyStep {
        let (source, name, text) = (self.source, Arc::clone(&self.name), text.into());
        let (key, version) = (history::name(key), history::name(version));
        KeyStep { source, name, stage, key, version, text, is_failure: false, cause: None }
    }
}

impl Observer for InformerObserver {
    fn event(&self, event: InformerEvent<'_>) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        match event {
            InformerEvent::Received(Delta::ReplacedAll { objects, resource_version }) => {
                inspector.record(|history, at| {
                    history.count(self.source, |counts| counts.received += objects.len() as u64);
                    let text = format!("listed at resource version {}", history::name(resource_version.as_str()));
                    for object in objects.iter().take(LISTED) {
                        let (key, version) = (object.key().as_str(), object.resource_version());
                        history.step(at, self.step(KeyStage::Deltas, key, version, &*text));
                    }
                });
            }
            InformerEvent::Received(delta) => {
                let Some(object) = delta.object() else { return };
                let text = match delta {
                    Delta::Added(_) => "watch event: added",
                    Delta::Updated(_) => "watch event: modified",
                    _ => "watch event: deleted",
                };
                let step = self.step(KeyStage::Deltas, object.key().as_str(), object.resource_version(), text);
                inspector.record(|history, at| {
                    history.count(self.source, |counts| counts.received += 1);
                    history.step(at, step);
                });
            }
            InformerEvent::Applied { event, is_resync } => {
                let (key, version, what) = (event.key().as_str(), version_of(event), event_name(event));
                let what = if is_resync { "resync" } else { what };
                let text = match event {
                    _ if is_resync => "resync; notifying handlers".to_owned(),
                    _ if is_unchanged(event) => {
                        format!("unchanged in the store; notifying handlers due for a resync: {what}")
                    }
                    Event::Delete(_) => format!("removed from the store; notifying handlers: {what}"),
                    _ => format!("stored; notifying handlers: {what}"),
                };
                let step = self.step(KeyStage::Store, key, version, text);
                inspector.record(|history, at| {
                    history.count(self.source, |counts| counts.applied += 1);
                    history.notification(at, &self.name, what, key, version);
                    history.step(at, step);
                });
            }
            InformerEvent::HandlerCalled { handler, event } => {
                let (key, version) = (event.key().as_str(), version_of(event));
                let handler = history::name(handler);
                let text = format!("{handler} notified: {}", event_name(event));
                let cause = Cause {
                    source: self.source,
                    informer: Arc::clone(&self.name),
                    handler: handler.into(),
                    kind: Arc::clone(&self.kind),
                    what: cause_verb(event),
                    key: history::name(key),
                    version: history::name(version),
                };
                set_current_cause(&self.inspector, Some(cause));
                let step = self.step(KeyStage::Handlers, key, version, text);
                inspector.record(|history, at| {
                    history.count(self.source, |counts| counts.notified += 1);
                    history.step(at, step);
                });
            }
            InformerEvent::HandlerReturned { handler, key, panicked } => {
                set_current_cause(&self.inspector, None);
                if panicked {
                    let text = format!("{} panicked", history::name(handler));
                    let mut step = self.step(KeyStage::Handlers, key.as_str(), "", text);
                    step.is_failure = true;
                    inspector.record(|history, at| {
                        history.error(at, &self.name, key.as_str(), &step.text);
                        history.step(at, step);
                    });
                }
            }
            InformerEvent::Failed(failure) => {
                let error = format!("{}; {}", failure.error, failure.next);
                inspector.record(|history, at| history.error(at, &self.name, "", &error));
            }
            _ => {}
        }
    }
}

fn version_of(event: &Event<Untyped>) -> &str {
    event.object().map_or("", |object| object.resource_version())
}

fn is_unchanged(event: &Event<Untyped>) -> bool {
    matches!(event, Event::Update { old, new } if old.resource_version() == new.resource_version())
}

fn cause_verb(event: &Event<Untyped>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "listed",
        Event::Add { .. } => "added",
        Event::Update { .. } if is_unchanged(event) => "redelivered",
        Event::Update { .. } => "updated",
        Event::Delete(deleted) if deleted.is_out_of_scope() => "out of scope",
        Event::Delete(_) => "deleted",
    }
}

/// Observes a queue. Does not keep the inspector alive.
pub(super) struct QueueObserver {
    pub(super) inspector: Weak<InspectorInner>,
    pub(super) source: SourceId,
    pub(super) name: Arc<str>,
}

impl<K: queue::Key + Display> queue::Observer<K> for QueueObserver {
    fn event(&self, key: &K, event: queue::KeyEvent) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        let key = history::name(&key.to_string());
        inspector.record(|history, at| self.record(history, at, key, event));
    }

    fn failed(&self, key: &K, error: &dyn Display) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        let (key, error) = (key.to_string(), format!("{error:#}"));
        inspector.record(|history, at| {
            history.error(at, &self.name, &key, &error);
            let error = crate::health::one_line(&error, history::TEXT_LENGTH);
            history.keys.failed((self.source, &history::name(&key)), &self.name, at, &error);
        });
    }
}

impl QueueObserver {
    fn record(&self, history: &mut RecentHistory, at: Duration, key: Box<str>, event: queue::KeyEvent) {
        let (mut is_failure, mut cause) = (false, None);
        let (stage, text) = match event {
            queue::KeyEvent::Added { priority, after, rate_limited } => {
                history.count(self.source, |counts| counts.added += 1);
                // `HandlerReturned` may be missing if the informer was removed during the call.
                cause = current_cause(&self.inspector).filter(|cause| history.contains_source(cause.source));
                let why = match (&cause, rate_limited) {
                    (Some(cause), _) => format!("{} {} {}", cause.kind, cause.key, cause.what),
                    (None, true) => "retry".to_owned(),
                    (None, false) => "added by the program".to_owned(),
                };
                history.keys.added((self.source, &key), &self.name, at, after, &why);
                let mut text = match (after, rate_limited) {
                    (None, _) => "added".to_owned(),
                    (Some(after), false) => format!("added with a delay of {}", short(after)),
                    (Some(after), true) => format!("added with a backoff of {}", short(after)),
                };
                if priority != 0 {
                    text.push_str(&format!(", priority {priority}"));
                }
                (if after.is_some_and(|after| !after.is_zero()) { KeyStage::Delayed } else { KeyStage::Queue }, text)
            }
            queue::KeyEvent::Dequeued { waited, failures, .. } => {
                history.count(self.source, |counts| counts.dequeued += 1);
                history.keys.dequeued((self.source, &key), &self.name, at, failures);
                let mut text = match waited.is_zero() {
                    true => "dequeued".to_owned(),
                    false => format!("dequeued after {}", short(waited)),
                };
                if failures > 0 {
                    text.push_str(&format!(", attempt {}", failures.saturating_add(1)));
                }
                (KeyStage::Workers, text)
            }
            queue::KeyEvent::Finished { outcome, requeue_after, state, failures } => {
                is_failure = matches!(outcome, ItemOutcome::Failed | ItemOutcome::GaveUp | ItemOutcome::Panicked);
                history.count(self.source, |counts| {
                    counts.finished += 1;
                    counts.failed += u64::from(is_failure);
                    let returns = state == KeyState::Delayed || requeue_after.is_some();
                    let is_retry =
                        matches!(outcome, ItemOutcome::Failed | ItemOutcome::Panicked | ItemOutcome::Dropped);
                    counts.planned += u64::from(returns && !is_retry);
                });
                if outcome == ItemOutcome::Panicked {
                    history.keys.failed((self.source, &key), &self.name, at, "worker panicked");
                }
                let finished = FinishedKey { outcome, state, requeue_after, failures };
                history.keys.finished((self.source, &key), at, &finished);
                let mut text = match outcome {
                    ItemOutcome::Succeeded => "reconciled".to_owned(),
                    ItemOutcome::Failed => format!("failed, {failures} in a row"),
                    ItemOutcome::GaveUp => "failed; not retried".to_owned(),
                    ItemOutcome::Requeued => "incomplete".to_owned(),
                    ItemOutcome::Panicked => {
                        history.error(at, &self.name, &key, "worker panicked");
                        "worker panicked".to_owned()
                    }
                    ItemOutcome::Dropped => "dropped without a verdict".to_owned(),
                    _ => "finished".to_owned(),
                };
                match (state, requeue_after) {
                    (KeyState::Ready, _) => text.push_str("; requeued"),
                    (_, Some(wait)) => {
                        let how = match outcome {
                            ItemOutcome::Failed | ItemOutcome::Panicked | ItemOutcome::Dropped => "with a backoff of",
                            _ => "after",
                        };
                        text.push_str(&format!("; requeued {how} {}", short(wait)));
                    }
                    (KeyState::Delayed, None) => text.push_str("; delayed"),
                    _ => {}
                }
                let stage = match state {
                    KeyState::Ready => KeyStage::Queue,
                    KeyState::Delayed => KeyStage::Delayed,
                    _ => KeyStage::Done,
                };
                (stage, text)
            }
            _ => return,
        };
        let (source, name, version) = (self.source, Arc::clone(&self.name), Box::default());
        history.step(at, KeyStep { source, name, stage, key, version, text, is_failure, cause });
    }
}

/// Formats a duration with three significant digits.
fn short(time: Duration) -> String {
    let (value, unit) = match time.as_micros() {
        0..1_000 => (time.as_micros() as f64, "µs"),
        1_000..1_000_000 => (time.as_micros() as f64 / 1e3, "ms"),
        1_000_000..120_000_000 => (time.as_secs_f64(), "s"),
        _ => (time.as_secs_f64() / 60.0, "min"),
    };
    let digits = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests;
