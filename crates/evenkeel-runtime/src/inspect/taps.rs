//! From the steps of informers and queues to the [`Ledger`](super::ledger::Ledger).

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

use super::Inner;
use super::ledger::{self, Cause, Happened, LaneId, Ledger, Stage};

/// Of the objects of one list, so many are told of one by one.
const LISTED: usize = 256;

thread_local! {
    /// What a handler is being told on this thread, as each inspector knows it: the cause of whatever it does.
    static TELLING: RefCell<Vec<(Weak<Inner>, Arc<Cause>)>> = const { RefCell::new(Vec::new()) };
}

/// A handler is being told something, or nothing any more. What inspectors have left behind that went meanwhile goes too.
fn telling(inspector: &Weak<Inner>, cause: Option<Cause>) {
    TELLING.with_borrow_mut(|all| {
        all.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(inspector));
        all.extend(cause.map(|cause| (Weak::clone(inspector), Arc::new(cause))));
    });
}

/// What a handler is being told on this thread.
fn told(inspector: &Weak<Inner>) -> Option<Arc<Cause>> {
    TELLING.with_borrow(|all| all.iter().find(|(other, _)| other.ptr_eq(inspector)).map(|(_, cause)| Arc::clone(cause)))
}

/// Listens to an informer. It does not keep the inspector alive.
pub(super) struct InformerTap {
    pub(super) inspector: Weak<Inner>,
    pub(super) lane: LaneId,
    pub(super) name: Arc<str>,
    pub(super) kind: Arc<str>,
}

impl InformerTap {
    fn happened(&self, stage: Stage, key: &str, version: &str, text: impl Into<String>) -> Happened {
        let (lane, name, text) = (self.lane, Arc::clone(&self.name), text.into());
        let (key, version) = (ledger::name(key), ledger::name(version));
        Happened { lane, name, stage, key, version, text, is_failure: false, cause: None }
    }
}

impl Observer for InformerTap {
    fn event(&self, event: InformerEvent<'_>) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        match event {
            InformerEvent::Received(Delta::ReplacedAll { objects, resource_version }) => {
                inspector.record(|ledger, at| {
                    ledger.count(self.lane, |counts| counts.heard += objects.len() as u64);
                    let text = format!("in the list of version {}", ledger::name(resource_version.as_str()));
                    for object in objects.iter().take(LISTED) {
                        let (key, version) = (object.key().as_str(), object.resource_version());
                        ledger.step(at, self.happened(Stage::Deltas, key, version, &*text));
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
                let happened = self.happened(Stage::Deltas, object.key().as_str(), object.resource_version(), text);
                inspector.record(|ledger, at| {
                    ledger.count(self.lane, |counts| counts.heard += 1);
                    ledger.step(at, happened);
                });
            }
            InformerEvent::Applied { event, is_resync } => {
                let (key, version, what) = (event.key().as_str(), version_of(event), name_of(event));
                let what = if is_resync { "resync" } else { what };
                let text = match event {
                    _ if is_resync => "resync: handlers are told again".to_owned(),
                    _ if is_the_same(event) => {
                        format!("in the store, as it was; whoever is due for a resync is told: {what}")
                    }
                    Event::Delete(_) => format!("out of the store; handlers are told: {what}"),
                    _ => format!("in the store; handlers are told: {what}"),
                };
                let happened = self.happened(Stage::Store, key, version, text);
                inspector.record(|ledger, at| {
                    ledger.count(self.lane, |counts| counts.applied += 1);
                    ledger.notification(at, &self.name, what, key, version);
                    ledger.step(at, happened);
                });
            }
            InformerEvent::HandlerCalled { handler, event } => {
                let (key, version) = (event.key().as_str(), version_of(event));
                let handler = ledger::name(handler);
                let text = format!("{handler} is told: {}", name_of(event));
                let cause = Cause {
                    lane: self.lane,
                    informer: Arc::clone(&self.name),
                    handler: handler.into(),
                    kind: Arc::clone(&self.kind),
                    what: past_of(event),
                    key: ledger::name(key),
                    version: ledger::name(version),
                };
                telling(&self.inspector, Some(cause));
                let happened = self.happened(Stage::Handlers, key, version, text);
                inspector.record(|ledger, at| {
                    ledger.count(self.lane, |counts| counts.told += 1);
                    ledger.step(at, happened);
                });
            }
            InformerEvent::HandlerReturned { handler, key, panicked } => {
                telling(&self.inspector, None);
                if panicked {
                    let text = format!("{} panicked", ledger::name(handler));
                    let mut happened = self.happened(Stage::Handlers, key.as_str(), "", text);
                    happened.is_failure = true;
                    inspector.record(|ledger, at| {
                        ledger.error(at, &self.name, key.as_str(), &happened.text);
                        ledger.step(at, happened);
                    });
                }
            }
            InformerEvent::Failed(failure) => {
                let error = format!("{}; {}", failure.error, failure.next);
                inspector.record(|ledger, at| ledger.error(at, &self.name, "", &error));
            }
            _ => {}
        }
    }
}

fn version_of(event: &Event<Untyped>) -> &str {
    event.object().map_or("", |object| object.resource_version())
}

fn name_of(event: &Event<Untyped>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "initial",
        Event::Add { .. } => "add",
        Event::Update { .. } => "update",
        Event::Delete(_) => "delete",
    }
}

fn is_the_same(event: &Event<Untyped>) -> bool {
    matches!(event, Event::Update { old, new } if old.resource_version() == new.resource_version())
}

fn past_of(event: &Event<Untyped>) -> &'static str {
    match event {
        Event::Add { initial: true, .. } => "is there",
        Event::Add { .. } => "came",
        Event::Update { .. } if is_the_same(event) => "is told of again",
        Event::Update { .. } => "changed",
        Event::Delete(_) => "went",
    }
}

/// Listens to a queue. It does not keep the inspector alive.
pub(super) struct QueueTap {
    pub(super) inspector: Weak<Inner>,
    pub(super) lane: LaneId,
    pub(super) name: Arc<str>,
}

impl<K: queue::Key + Display> queue::Observer<K> for QueueTap {
    fn event(&self, key: &K, event: queue::KeyEvent) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        let key = ledger::name(&key.to_string());
        inspector.record(|ledger, at| self.record(ledger, at, key, event));
    }

    fn failed(&self, key: &K, error: &dyn Display) {
        let Some(inspector) = self.inspector.upgrade() else { return };
        let (key, error) = (key.to_string(), format!("{error:#}"));
        inspector.record(|ledger, at| ledger.error(at, &self.name, &key, &error));
    }
}

impl QueueTap {
    fn record(&self, ledger: &mut Ledger, at: Duration, key: Box<str>, event: queue::KeyEvent) {
        let (mut is_failure, mut cause) = (false, None);
        let (stage, text) = match event {
            queue::KeyEvent::Added { priority, after, rate_limited } => {
                ledger.count(self.lane, |counts| counts.added += 1);
                // A call of a handler whose informer is gone may have ended without a word.
                cause = told(&self.inspector).filter(|cause| ledger.knows(cause.lane));
                let mut text = match (after, rate_limited) {
                    (None, _) => "added".to_owned(),
                    (Some(after), false) => format!("added for {} later", short(after)),
                    (Some(after), true) => format!("added, after a back-off of {}", short(after)),
                };
                if priority != 0 {
                    text.push_str(&format!(", priority {priority}"));
                }
                (if after.is_some_and(|after| !after.is_zero()) { Stage::Waiting } else { Stage::Queue }, text)
            }
            queue::KeyEvent::Dequeued { waited, failures, .. } => {
                ledger.count(self.lane, |counts| counts.taken += 1);
                let mut text = "a worker has it".to_owned();
                if !waited.is_zero() {
                    text.push_str(&format!(", it was ready for {}", short(waited)));
                }
                if failures > 0 {
                    text.push_str(&format!(", attempt {}", failures.saturating_add(1)));
                }
                (Stage::Workers, text)
            }
            queue::KeyEvent::Finished { outcome, requeue_after, state, failures } => {
                is_failure = matches!(outcome, ItemOutcome::Failed | ItemOutcome::GaveUp | ItemOutcome::Panicked);
                ledger.count(self.lane, |counts| {
                    counts.finished += 1;
                    counts.failed += u64::from(is_failure);
                });
                let mut text = match outcome {
                    ItemOutcome::Succeeded => "it went well".to_owned(),
                    ItemOutcome::Failed => format!("it failed, {failures} in a row"),
                    ItemOutcome::GaveUp => "it failed for good".to_owned(),
                    ItemOutcome::Requeued => "there is more to do".to_owned(),
                    ItemOutcome::Panicked => {
                        ledger.error(at, &self.name, &key, "the worker panicked");
                        "the worker panicked".to_owned()
                    }
                    _ => "the worker is done".to_owned(),
                };
                match (state, requeue_after) {
                    (KeyState::Ready, _) => text.push_str("; it is in the queue again"),
                    (_, Some(wait)) => text.push_str(&format!("; it comes back after {}", short(wait))),
                    (KeyState::Delayed, None) => text.push_str("; it waits for its time"),
                    _ => {}
                }
                let stage = match state {
                    KeyState::Ready => Stage::Queue,
                    KeyState::Delayed => Stage::Waiting,
                    _ => Stage::Done,
                };
                (stage, text)
            }
            _ => return,
        };
        let (lane, name, version) = (self.lane, Arc::clone(&self.name), Box::default());
        ledger.step(at, Happened { lane, name, stage, key, version, text, is_failure, cause });
    }
}

/// A time as people say it: with three digits that matter.
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
