//! [`EventWriter`]: what the two event APIs have in common. It takes occurrences and returns [writes](Write).

use std::time::Duration;

use serde_json::Value;

use super::sink::SinkEvent;
use super::tracker::Hold;
use super::{EventKey, Occurrence};

/// Turns occurrences into writes. It keeps state, is given the time, and does no I/O.
pub(crate) trait EventWriter: Send + 'static {
    /// The type of the events.
    type Event: SinkEvent;

    /// Whether there are series to refresh and to finish.
    const HAS_SERIES: bool;

    /// Returns the delay before the attempt that follows this many.
    fn pause(&self, attempts: u32, chance: f64) -> Duration;

    /// Takes an occurrence.
    fn observe(&mut self, occurrence: &Occurrence) -> Observed<Self::Event>;

    /// Takes the result of a write.
    fn settled(&mut self, key: &EventKey, settled: Settled<'_, Self::Event>);

    /// Returns the series to rewrite so that the server keeps them. Called every
    /// [`refresh_every`](super::SinkOptions::refresh_every).
    fn refresh(&mut self) -> Vec<Write<Self::Event>> {
        Vec::new()
    }

    /// Returns the finished series, by the clock of [`Occurrence::since_start`]. Called every [`finish_after`](super::SinkOptions::finish_after).
    fn finish(&mut self, now: Duration) -> Vec<Write<Self::Event>> {
        let _ = now;
        Vec::new()
    }

    /// Returns counts that are not written yet. Called once, at shutdown.
    fn unwritten(&mut self) -> Vec<Write<Self::Event>> {
        Vec::new()
    }
}

/// The result of an occurrence.
#[derive(Debug)]
pub(crate) struct Observed<E> {
    /// The writes to send. Empty if the occurrence was only counted.
    pub(crate) writes: Vec<Write<E>>,
    /// The spam filter held it back.
    pub(crate) is_spam: bool,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) enum Settled<'a, E> {
    /// The server stored this.
    Written(&'a E),
    /// Retrying is of no use.
    Refused,
    /// All attempts failed.
    GivenUp,
}

/// An event to write.
#[derive(Debug)]
pub(crate) struct Write<E> {
    /// Its key in the writer.
    pub(crate) key: EventKey,
    /// The whole event.
    pub(crate) event: E,
    /// The change since the last write, if there was one.
    pub(crate) patch: Option<Value>,
    /// Whether the server should have the event, so that the patch is enough.
    pub(crate) exists: bool,
    /// Keeps flushes waiting until it is dropped.
    pub(crate) hold: Option<Hold>,
}

impl<E> Write<E> {
    pub(crate) fn create(key: EventKey, event: E) -> Self {
        Write { key, event, patch: None, exists: false, hold: None }
    }

    pub(crate) fn patch(key: EventKey, event: E, patch: Value) -> Self {
        Write { key, event, patch: Some(patch), exists: true, hold: None }
    }

    /// Merges two writes of one event: the later one has all content. If the earlier one was never sent, the server
    /// does not have the event.
    pub(crate) fn after(mut self, earlier: Write<E>) -> Self {
        self.exists = earlier.exists;
        // A flush that waits for the later write also waits for the earlier one.
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
