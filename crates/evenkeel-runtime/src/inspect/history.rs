//! [`RecentHistory`]: bounded rings of recent steps, notifications, errors and notes. The caller passes the time;
//! there is no I/O.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys::KeyTable;
use crate::health::one_line;

/// Capacity of the ring of steps, shared by all keys.
pub(super) const STEPS: usize = 4096;
/// Capacity of the ring of notifications.
pub(super) const NOTIFICATIONS: usize = 200;
/// Capacity of the ring of errors.
pub(super) const ERRORS: usize = 100;
/// Capacity of the ring of notes.
pub(super) const NOTES: usize = 50;
/// Maximum number of steps of a followed key in one report.
pub(super) const FOLLOWED: usize = 200;
/// Maximum number of recorded edges from a handler to a queue.
const FEEDS: usize = 256;
/// Maximum length of a text in bytes. A longer text is cut and ends in an ellipsis; line breaks become spaces.
pub(super) const TEXT_LENGTH: usize = 1024;
/// Maximum length of a name or a version in bytes, including the ellipsis. A key as shown can therefore be followed.
pub(super) const NAME_LENGTH: usize = 1024;

/// The recent past of all sources. Every entry has a sequence number; [`since`](Self::since) returns the entries from
/// a number on.
#[derive(Default)]
pub(super) struct RecentHistory {
    /// Sequence number of the next entry.
    next: u64,
    steps: VecDeque<StepEntry>,
    notifications: VecDeque<NotificationEntry>,
    errors: VecDeque<ErrorEntry>,
    notes: VecDeque<NoteEntry>,
    /// Counters of the present sources only.
    counts: BTreeMap<SourceId, SourceCounts>,
    feeds: Vec<HandlerFeed>,
    /// Keys that need attention.
    pub(super) keys: KeyTable,
    /// Number of entries evicted by newer ones.
    evicted: u64,
}

/// Identifies an informer or a queue; never reused.
pub(super) type SourceId = u64;

/// The stage of the pipeline that a key has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyStage {
    /// Received by the reflector, not applied yet.
    Deltas,
    Store,
    Handlers,
    /// Ready in the work queue.
    Queue,
    /// Delayed in the work queue.
    Delayed,
    Workers,
    /// Finished and not queued.
    Done,
}

/// An edge from a handler of an informer to a queue.
struct HandlerFeed {
    informer: SourceId,
    handler: Arc<str>,
    queue: SourceId,
    queue_name: Arc<str>,
}

/// One step of a key through the pipeline.
#[derive(Clone, Debug)]
pub(super) struct KeyStep {
    pub(super) source: SourceId,
    pub(super) name: Arc<str>,
    pub(super) stage: KeyStage,
    pub(super) key: Box<str>,
    /// Empty if unknown.
    pub(super) version: Box<str>,
    pub(super) text: String,
    /// Whether the step is a failure.
    pub(super) is_failure: bool,
    /// The notification during which the step happened.
    pub(super) cause: Option<Arc<Cause>>,
}

/// The notification that a handler was processing when it added a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) source: SourceId,
    pub(super) informer: Arc<str>,
    pub(super) handler: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) what: &'static str,
    pub(super) key: Box<str>,
    pub(super) version: Box<str>,
}

struct StepEntry {
    number: u64,
    at: Duration,
    step: KeyStep,
}

struct NotificationEntry {
    number: u64,
    at: Duration,
    informer: Arc<str>,
    what: &'static str,
    key: Box<str>,
    version: Box<str>,
}

struct ErrorEntry {
    /// Sequence number of the first occurrence.
    first: u64,
    /// Sequence number of the latest occurrence.
    number: u64,
    at: Duration,
    component: Box<str>,
    key: Box<str>,
    error: String,
    count: u64,
}

struct NoteEntry {
    number: u64,
    at: Duration,
    text: String,
}

/// Event counters of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SourceCounts {
    /// Objects received by the reflector.
    pub(super) received: u64,
    /// Changes applied to the store.
    pub(super) applied: u64,
    /// Handler calls.
    pub(super) notified: u64,
    /// Keys added to the queue.
    pub(super) added: u64,
    /// Keys dequeued by workers.
    pub(super) dequeued: u64,
    /// Keys finished by workers.
    pub(super) finished: u64,
    /// Keys finished with a failure; included in `finished`.
    pub(super) failed: u64,
    /// Keys that return as planned by their reconcile, without a failure; included in `finished`.
    pub(super) planned: u64,
}

impl RecentHistory {
    /// Returns the sequence number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of entries evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) fn counts(&self, source: SourceId) -> SourceCounts {
        self.counts.get(&source).copied().unwrap_or_default()
    }

    /// Adds an informer or a queue.
    pub(super) fn add_source(&mut self, source: SourceId) {
        self.counts.entry(source).or_default();
    }

    /// Returns whether the informer or queue is present.
    pub(super) fn contains_source(&self, source: SourceId) -> bool {
        self.counts.contains_key(&source)
    }

    /// Updates the counters of a source. Counters of removed sources are not updated.
    pub(super) fn count(&mut self, source: SourceId, count: impl FnOnce(&mut SourceCounts)) {
        if let Some(counts) = self.counts.get_mut(&source) {
            count(counts);
        }
    }

    /// Removes an informer or a queue with its counters and edges.
    pub(super) fn remove_source(&mut self, source: SourceId) {
        self.counts.remove(&source);
        self.feeds.retain(|feed| feed.informer != source && feed.queue != source);
        self.keys.remove_source(source);
    }

    /// Records an object that was in the store of an informer before the informer was observed.
    pub(super) fn present(&mut self, at: Duration, source: SourceId, informer: &Arc<str>, key: &str, version: &str) {
        self.notification(at, informer, "initial", key, version);
        let step = KeyStep {
            source,
            name: Arc::clone(informer),
            stage: KeyStage::Store,
            key: name(key),
            version: name(version),
            text: "in the store already".to_owned(),
            is_failure: false,
            cause: None,
        };
        self.step(at, step);
    }

    /// Records a step of a key.
    pub(super) fn step(&mut self, at: Duration, step: KeyStep) {
        if step.stage == KeyStage::Queue || step.stage == KeyStage::Delayed {
            self.record_feed(&step);
        }
        let number = self.next_number();
        self.evicted += push(&mut self.steps, STEPS, StepEntry { number, at, step });
    }

    fn record_feed(&mut self, step: &KeyStep) {
        let Some(cause) = &step.cause else { return };
        let (informer, handler, queue) = (cause.source, &cause.handler, step.source);
        let is_same = |feed: &HandlerFeed| (feed.informer, &feed.handler, feed.queue) == (informer, handler, queue);
        let are_present = self.contains_source(informer) && self.contains_source(queue);
        if are_present && self.feeds.len() < FEEDS && !self.feeds.iter().any(is_same) {
            let (handler, queue_name) = (Arc::clone(handler), Arc::clone(&step.name));
            self.feeds.push(HandlerFeed { informer, handler, queue, queue_name });
        }
    }

    /// Returns the names of the queues that a handler has added keys to.
    pub(super) fn queues_fed_by(&self, informer: SourceId, handler: &str) -> Vec<&str> {
        let is_of_handler = |feed: &&HandlerFeed| feed.informer == informer && &*feed.handler == handler;
        self.feeds.iter().filter(is_of_handler).map(|feed| &*feed.queue_name).collect()
    }

    /// Records a notification that is about to be distributed to handlers.
    pub(super) fn notification(
        &mut self,
        at: Duration,
        informer: &Arc<str>,
        what: &'static str,
        key: &str,
        version: &str,
    ) {
        let (number, informer) = (self.next_number(), Arc::clone(informer));
        let notification = NotificationEntry { number, at, informer, what, key: name(key), version: name(version) };
        self.evicted += push(&mut self.notifications, NOTIFICATIONS, notification);
    }

    /// Records an error. Consecutive equal errors are one entry with a count.
    pub(super) fn error(&mut self, at: Duration, component: &str, key: &str, error: &str) {
        let number = self.next_number();
        let (component, key, error) = (name(component), name(key), one_line(error, TEXT_LENGTH));
        if let Some(last) = self.errors.back_mut()
            && (&last.component, &last.key, &last.error) == (&component, &key, &error)
        {
            (last.number, last.at, last.count) = (number, at, last.count + 1);
            return;
        }
        let entry = ErrorEntry { first: number, number, at, component, key, error, count: 1 };
        self.evicted += push(&mut self.errors, ERRORS, entry);
    }

    /// Records a note.
    pub(super) fn note(&mut self, at: Duration, text: &str) {
        let number = self.next_number();
        self.evicted += push(&mut self.notes, NOTES, NoteEntry { number, at, text: one_line(text, TEXT_LENGTH) });
    }

    /// Returns the entries from this sequence number on, oldest first.
    pub(super) fn since(&self, number: u64, follow: Option<&str>) -> Map<String, Value> {
        let notifications = tail(&self.notifications, |entry| entry.number >= number).map(|entry| {
            json!({
                "id": entry.number, "at": ms(entry.at), "informer": &*entry.informer, "what": entry.what,
                "key": entry.key, "version": entry.version,
            })
        });
        let errors = tail(&self.errors, |entry| entry.number >= number).map(|entry| {
            json!({
                "id": entry.first, "at": ms(entry.at), "component": entry.component, "key": entry.key,
                "error": entry.error, "count": entry.count,
            })
        });
        let notes = tail(&self.notes, |entry| entry.number >= number)
            .map(|entry| json!({"id": entry.number, "at": ms(entry.at), "text": entry.text}));
        let mut changes = Map::new();
        changes.insert("notifications".to_owned(), notifications.collect());
        changes.insert("errors".to_owned(), errors.collect());
        changes.insert("notes".to_owned(), notes.collect());
        if let Some(key) = follow {
            let steps: Vec<_> = self.steps_of(key, number).collect();
            let last = steps.get(steps.len().saturating_sub(FOLLOWED)..).unwrap_or_default();
            let steps: Value = last.iter().map(|entry| entry.report()).collect();
            changes.insert("follow".to_owned(), json!({"key": key, "steps": steps}));
        }
        changes
    }

    /// Returns whether [`since`](Self::since) would return any entry.
    pub(super) fn has_changes_since(&self, number: u64, follow: Option<&str>) -> bool {
        self.notifications.back().is_some_and(|last| last.number >= number)
            || self.errors.back().is_some_and(|last| last.number >= number)
            || self.notes.back().is_some_and(|last| last.number >= number)
            || follow.is_some_and(|key| self.steps_of(key, number).next().is_some())
    }

    /// Returns the steps of a key, and the steps that it caused, from this sequence number on.
    fn steps_of<'a>(&'a self, key: &'a str, number: u64) -> impl Iterator<Item = &'a StepEntry> {
        tail(&self.steps, move |entry| entry.number >= number).filter(move |entry| {
            let step = &entry.step;
            &*step.key == key || step.cause.as_ref().is_some_and(|cause| &*cause.key == key)
        })
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

impl StepEntry {
    fn report(&self) -> Value {
        let KeyStep { source: _, name, stage, key, version, text, is_failure, cause } = &self.step;
        let cause = cause.as_ref().map(|cause| {
            json!({
                "informer": &*cause.informer, "kind": &*cause.kind, "what": cause.what,
                "key": cause.key, "version": cause.version,
            })
        });
        json!({
            "id": self.number, "at": ms(self.at), "source": &**name, "stage": stage, "key": key, "version": version,
            "text": text, "failed": is_failure, "cause": cause,
        })
    }
}

/// Returns a name or a version as recorded: one line of bounded length.
pub(super) fn name(text: &str) -> Box<str> {
    match text.len() <= NAME_LENGTH && !text.contains(char::is_control) {
        true => text.into(),
        false => one_line(text, NAME_LENGTH - '…'.len_utf8()).into(),
    }
}

/// Returns milliseconds with microsecond resolution.
pub(super) fn ms(time: Duration) -> Value {
    (time.as_micros() as f64 / 1000.0).into()
}

/// Appends an entry and evicts the oldest one if the ring is full. Returns the number of evicted entries.
fn push<T>(ring: &mut VecDeque<T>, limit: usize, newest: T) -> u64 {
    let is_full = ring.len() >= limit;
    if is_full {
        ring.pop_front();
    }
    ring.push_back(newest);
    u64::from(is_full)
}

/// Returns the trailing entries that are new, oldest first. Scans only those.
fn tail<T>(ring: &VecDeque<T>, is_new: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
    let new = ring.iter().rev().take_while(|entry| is_new(entry)).count();
    ring.iter().skip(ring.len() - new)
}
