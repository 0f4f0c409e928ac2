//! What the two APIs have in common: a [`Book`] is told what happened and says what is to be [written](Write).

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::sink::SinkEvent;
use super::tracker::Hold;
use super::{EventKey, Occurrence};

/// What remembers events: given the time and what happens, it answers with what is to be written. It does no I/O.
pub(crate) trait Book: Send + 'static {
    /// What it writes.
    type Event: SinkEvent;

    /// Whether there is anything to refresh and to finish.
    const HAS_SERIES: bool;

    /// How long to wait before the attempt that follows this many.
    fn pause(&self, attempts: u32, chance: f64) -> Duration;

    /// Something happened.
    fn observe(&mut self, occurrence: &Occurrence) -> Observed<Self::Event>;

    /// A write has come to its end.
    fn settled(&mut self, key: &EventKey, settled: Settled<'_, Self::Event>);

    /// What has to be written again to be kept by the server. Asked every [`refresh_every`](super::SinkOptions::refresh_every).
    fn refresh(&mut self) -> Vec<Write<Self::Event>> {
        Vec::new()
    }

    /// What is over. Asked every [`finish_after`](super::SinkOptions::finish_after).
    fn finish(&mut self, now: Timestamp) -> Vec<Write<Self::Event>> {
        let _ = now;
        Vec::new()
    }

    /// What nobody has written yet. Asked once, at the end.
    fn unwritten(&mut self) -> Vec<Write<Self::Event>> {
        Vec::new()
    }
}

/// What comes of an occurrence.
#[derive(Debug)]
pub(crate) struct Observed<E> {
    /// What is to be written. None if it was only counted.
    pub(crate) writes: Vec<Write<E>>,
    /// It was held back by the spam filter.
    pub(crate) is_spam: bool,
}

/// How a write has ended.
#[derive(Debug)]
pub(crate) enum Settled<'a, E> {
    /// The server has it, and says that it is this.
    Written(&'a E),
    /// It is of no use to try again.
    Refused,
    /// It might have gone well at another time.
    GivenUp,
}

/// An event to be written.
#[derive(Debug)]
pub(crate) struct Write<E> {
    /// What the book knows it by.
    pub(crate) key: EventKey,
    /// All of it.
    pub(crate) event: E,
    /// What has changed since it was written before, if it was.
    pub(crate) patch: Option<Value>,
    /// Whether the server should have the event already, so that the patch is enough.
    pub(crate) exists: bool,
    /// Keeps those waiting who want to know when it is done.
    pub(crate) hold: Option<Hold>,
}

impl<E> Write<E> {
    pub(crate) fn create(key: EventKey, event: E) -> Self {
        Write { key, event, patch: None, exists: false, hold: None }
    }

    pub(crate) fn patch(key: EventKey, event: E, patch: Value) -> Self {
        Write { key, event, patch: Some(patch), exists: true, hold: None }
    }

    /// The later of two writes of one event says it all. If the earlier one was never sent, the server does not have the event.
    pub(crate) fn after(mut self, earlier: Write<E>) -> Self {
        self.exists = earlier.exists;
        // Whoever waits for the later one began to wait while the earlier one was not done.
        self.hold = earlier.hold.or(self.hold);
        self
    }
}

impl<E> Observed<E> {
    pub(crate) fn counted() -> Self {
        Observed { writes: Vec::new(), is_spam: false }
    }

    pub(crate) fn spam() -> Self {
        Observed { writes: Vec::new(), is_spam: true }
    }

    pub(crate) fn write(write: Write<E>) -> Self {
        Observed { writes: vec![write], is_spam: false }
    }
}
