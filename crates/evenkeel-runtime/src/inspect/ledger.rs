//! [`Ledger`]: what has happened lately. It is told the time, and knows neither sockets nor clocks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::health::one_line;

/// So many steps are remembered, of all keys together.
pub(super) const STEPS: usize = 4096;
/// So many notifications.
pub(super) const NOTIFICATIONS: usize = 200;
/// So many errors.
pub(super) const ERRORS: usize = 100;
/// So many lines of the story.
pub(super) const NOTES: usize = 50;
/// Of a key that is followed, so many steps are told at once.
pub(super) const FOLLOWED: usize = 200;
/// So many ways from a handler to a queue are remembered.
const FEEDS: usize = 256;
/// A text is one line of at most so many bytes, and an ellipsis if there was more.
pub(super) const TEXT_LENGTH: usize = 1024;
/// How long a name or a version can be, with its ellipsis. So what is shown of a key can be followed.
pub(super) const NAME_LENGTH: usize = 1024;

/// What has happened lately. Everything has a number, and what came since a number can be asked for.
#[derive(Default)]
pub(super) struct Ledger {
    /// The number of what comes next.
    next: u64,
    steps: VecDeque<Step>,
    notifications: VecDeque<Notification>,
    errors: VecDeque<Failure>,
    notes: VecDeque<Note>,
    /// Of the informers and queues that are there, and of no other.
    counts: BTreeMap<LaneId, Counts>,
    feeds: Vec<Feed>,
    /// How much had to make room.
    forgotten: u64,
}

/// The number of an informer or a queue among those that were ever added.
pub(super) type LaneId = u64;

/// How far a key has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stage {
    /// The reflector has heard of it, and it waits to be applied.
    Deltas,
    Store,
    Handlers,
    /// It can be handed out.
    Queue,
    /// It is in the queue, and waits for its time.
    Waiting,
    Workers,
    /// All is done, for now.
    Done,
}

/// A way from a handler of an informer to a queue.
struct Feed {
    informer: LaneId,
    handler: Arc<str>,
    queue: LaneId,
    queue_name: Arc<str>,
}

/// Something that happened to a key.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) lane: LaneId,
    pub(super) name: Arc<str>,
    pub(super) stage: Stage,
    pub(super) key: Box<str>,
    /// Empty if that is not known.
    pub(super) version: Box<str>,
    pub(super) text: String,
    /// Whether it went wrong.
    pub(super) is_failure: bool,
    /// What led to it.
    pub(super) cause: Option<Arc<Cause>>,
}

/// What a handler was being told when something happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) lane: LaneId,
    pub(super) informer: Arc<str>,
    pub(super) handler: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) what: &'static str,
    pub(super) key: Box<str>,
    pub(super) version: Box<str>,
}

struct Step {
    number: u64,
    at: Duration,
    happened: Happened,
}

struct Notification {
    number: u64,
    at: Duration,
    informer: Arc<str>,
    what: &'static str,
    key: Box<str>,
    version: Box<str>,
}

struct Failure {
    /// The number of the first time.
    first: u64,
    /// The number of the last time.
    number: u64,
    at: Duration,
    component: Box<str>,
    key: Box<str>,
    error: String,
    count: u64,
}

struct Note {
    number: u64,
    at: Duration,
    text: String,
}

/// How often something has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// The reflector has heard of an object.
    pub(super) heard: u64,
    /// The store was written.
    pub(super) applied: u64,
    /// A handler was told.
    pub(super) told: u64,
    /// A key was added.
    pub(super) added: u64,
    /// A key was handed out.
    pub(super) taken: u64,
    /// A worker was done.
    pub(super) finished: u64,
    /// Of those, how often that was a failure.
    pub(super) failed: u64,
}

impl Ledger {
    /// What comes next has this number.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// How much had to make room so far.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn counts(&self, lane: LaneId) -> Counts {
        self.counts.get(&lane).copied().unwrap_or_default()
    }

    /// An informer or a queue is there.
    pub(super) fn begin(&mut self, lane: LaneId) {
        self.counts.entry(lane).or_default();
    }

    /// Whether an informer or a queue is there.
    pub(super) fn knows(&self, lane: LaneId) -> bool {
        self.counts.contains_key(&lane)
    }

    /// Something has passed that is not remembered by itself. Of what is gone, nothing is counted any more.
    pub(super) fn count(&mut self, lane: LaneId, count: impl FnOnce(&mut Counts)) {
        if let Some(counts) = self.counts.get_mut(&lane) {
            count(counts);
        }
    }

    /// An informer or a queue is gone.
    pub(super) fn forget(&mut self, lane: LaneId) {
        self.counts.remove(&lane);
        self.feeds.retain(|feed| feed.informer != lane && feed.queue != lane);
    }

    /// Something has happened to a key.
    pub(super) fn step(&mut self, at: Duration, happened: Happened) {
        if happened.stage == Stage::Queue || happened.stage == Stage::Waiting {
            self.feed(&happened);
        }
        let number = self.number();
        self.forgotten += push(&mut self.steps, STEPS, Step { number, at, happened });
    }

    fn feed(&mut self, happened: &Happened) {
        let Some(cause) = &happened.cause else { return };
        let (informer, handler, queue) = (cause.lane, &cause.handler, happened.lane);
        let is_it = |feed: &Feed| (feed.informer, &feed.handler, feed.queue) == (informer, handler, queue);
        let is_there = self.knows(informer) && self.knows(queue);
        if is_there && self.feeds.len() < FEEDS && !self.feeds.iter().any(is_it) {
            let (handler, queue_name) = (Arc::clone(handler), Arc::clone(&happened.name));
            self.feeds.push(Feed { informer, handler, queue, queue_name });
        }
    }

    /// The queues that a handler has been seen to add keys to.
    pub(super) fn fed_by(&self, informer: LaneId, handler: &str) -> Vec<&str> {
        let is_its = |feed: &&Feed| feed.informer == informer && &*feed.handler == handler;
        self.feeds.iter().filter(is_its).map(|feed| &*feed.queue_name).collect()
    }

    /// Handlers are going to be told of an object.
    pub(super) fn notification(
        &mut self,
        at: Duration,
        informer: &Arc<str>,
        what: &'static str,
        key: &str,
        version: &str,
    ) {
        let (number, informer) = (self.number(), Arc::clone(informer));
        let notification = Notification { number, at, informer, what, key: name(key), version: name(version) };
        self.forgotten += push(&mut self.notifications, NOTIFICATIONS, notification);
    }

    /// Something went wrong. The same thing many times in a row is one, with a count.
    pub(super) fn error(&mut self, at: Duration, component: &str, key: &str, error: &str) {
        let number = self.number();
        let (component, key, error) = (name(component), name(key), one_line(error, TEXT_LENGTH));
        if let Some(last) = self.errors.back_mut()
            && (&last.component, &last.key, &last.error) == (&component, &key, &error)
        {
            (last.number, last.at, last.count) = (number, at, last.count + 1);
            return;
        }
        let failure = Failure { first: number, number, at, component, key, error, count: 1 };
        self.forgotten += push(&mut self.errors, ERRORS, failure);
    }

    /// A line of the story.
    pub(super) fn note(&mut self, at: Duration, text: &str) {
        let number = self.number();
        self.forgotten += push(&mut self.notes, NOTES, Note { number, at, text: one_line(text, TEXT_LENGTH) });
    }

    /// What has come since this number, oldest first.
    pub(super) fn since(&self, number: u64, follow: Option<&str>) -> Map<String, Value> {
        let notifications = tail(&self.notifications, |one| one.number >= number).map(|one| {
            json!({
                "id": one.number, "at": ms(one.at), "informer": &*one.informer, "what": one.what,
                "key": one.key, "version": one.version,
            })
        });
        let errors = tail(&self.errors, |one| one.number >= number).map(|one| {
            json!({
                "id": one.first, "at": ms(one.at), "component": one.component, "key": one.key,
                "error": one.error, "count": one.count,
            })
        });
        let notes = tail(&self.notes, |one| one.number >= number)
            .map(|one| json!({"id": one.number, "at": ms(one.at), "text": one.text}));
        let mut news = Map::new();
        news.insert("notifications".to_owned(), notifications.collect());
        news.insert("errors".to_owned(), errors.collect());
        news.insert("notes".to_owned(), notes.collect());
        if let Some(key) = follow {
            let steps: Vec<_> = self.steps_of(key, number).collect();
            let last = steps.get(steps.len().saturating_sub(FOLLOWED)..).unwrap_or_default();
            let steps: Value = last.iter().map(|step| step.report()).collect();
            news.insert("follow".to_owned(), json!({"key": key, "steps": steps}));
        }
        news
    }

    /// Whether anything came since this number that would be told.
    pub(super) fn has_news(&self, number: u64, follow: Option<&str>) -> bool {
        self.notifications.back().is_some_and(|last| last.number >= number)
            || self.errors.back().is_some_and(|last| last.number >= number)
            || self.notes.back().is_some_and(|last| last.number >= number)
            || follow.is_some_and(|key| self.steps_of(key, number).next().is_some())
    }

    /// What happened to a key, and what that led to, since this number.
    fn steps_of<'a>(&'a self, key: &'a str, number: u64) -> impl Iterator<Item = &'a Step> {
        tail(&self.steps, move |step| step.number >= number).filter(move |step| {
            let happened = &step.happened;
            &*happened.key == key || happened.cause.as_ref().is_some_and(|cause| &*cause.key == key)
        })
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

impl Step {
    fn report(&self) -> Value {
        let Happened { lane: _, name, stage, key, version, text, is_failure, cause } = &self.happened;
        let because = cause.as_ref().map(|cause| {
            json!({
                "informer": &*cause.informer, "kind": &*cause.kind, "what": cause.what,
                "key": cause.key, "version": cause.version,
            })
        });
        json!({
            "id": self.number, "at": ms(self.at), "lane": &**name, "stage": stage, "key": key, "version": version,
            "text": text, "failed": is_failure, "because": because,
        })
    }
}

/// A name or a version as it is remembered: one line that is not too long.
pub(super) fn name(text: &str) -> Box<str> {
    match text.len() <= NAME_LENGTH && !text.contains(char::is_control) {
        true => text.into(),
        false => one_line(text, NAME_LENGTH - '…'.len_utf8()).into(),
    }
}

/// Milliseconds, to the microsecond.
pub(super) fn ms(time: Duration) -> Value {
    (time.as_micros() as f64 / 1000.0).into()
}

/// Adds the newest, and lets go of the oldest if there are too many; answers how many that were.
fn push<T>(ring: &mut VecDeque<T>, limit: usize, newest: T) -> u64 {
    let is_full = ring.len() >= limit;
    if is_full {
        ring.pop_front();
    }
    ring.push_back(newest);
    u64::from(is_full)
}

/// What is newer than something, oldest first. It looks at no more than that.
fn tail<T>(ring: &VecDeque<T>, is_new: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
    let new = ring.iter().rev().take_while(|one| is_new(one)).count();
    ring.iter().skip(ring.len() - new)
}
