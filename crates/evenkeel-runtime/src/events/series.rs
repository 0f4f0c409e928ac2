//! [`Series`]: merges similar events of `events.k8s.io/v1` into one with a count.
//!
//! The first occurrence is written. The second turns it into a series, which is written too. Further ones are counted
//! locally; the count is written periodically while the series continues, after it has been quiet for a while, and at
//! shutdown.

use std::time::Duration;

use evenkeel_base::jitter;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use lru::LruCache;
use serde_json::json;

use super::event_writer::{EventWriter, Observed, Settled, Write};
use super::names::cut;
use super::options::SinkOptions;
use super::spam::SpamFilter;
use super::{EventKey, Occurrence};

/// The server's limits on the length of words and notes.
const WORD_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// The state of a sink of `events.k8s.io/v1`.
#[derive(Debug)]
pub(crate) struct Series {
    options: SinkOptions,
    entries: LruCache<EventKey, SeriesEntry>,
    spam: SpamFilter,
}

/// An event that may recur.
#[derive(Debug)]
struct SeriesEntry {
    event: Event,
    /// When it was seen last.
    last: Duration,
    /// The count in the last write that was handed out.
    written: i32,
    /// The count at which the series was considered finished.
    finishing: Option<i32>,
}

impl Series {
    pub(crate) fn new(options: &SinkOptions) -> Self {
        Series {
            entries: LruCache::sparse(options.cache_size),
            spam: SpamFilter::new(options),
            options: options.clone(),
        }
    }

    fn begin(&mut self, key: EventKey, occurrence: &Occurrence) -> Observed<Event> {
        if !self.spam.accepts(occurrence) {
            return Observed::spam();
        }
        let event = new_event(occurrence);
        let entry = SeriesEntry { event: event.clone(), last: occurrence.since_start, written: 1, finishing: None };
        let mut observed = Observed::write(Write::create(key.clone(), event));
        if let Some((key, mut forgotten)) = self.entries.push(key, entry) {
            observed.writes.extend(forgotten.write_if_behind(&key));
        }
        observed
    }
}

impl SeriesEntry {
    fn count(&self) -> i32 {
        self.event.series.as_ref().map_or(1, |series| series.count)
    }

    /// Counts one more occurrence.
    fn add(&mut self, occurrence: &Occurrence) {
        let count = self.count().saturating_add(1);
        self.event.series = Some(EventSeries { count, last_observed_time: MicroTime(occurrence.at) });
        self.last = self.last.max(occurrence.since_start);
    }

    /// Returns a write of the series. `None` if it has a single occurrence.
    fn write(&mut self, key: &EventKey) -> Option<Write<Event>> {
        let series = self.event.series.as_ref()?;
        self.written = series.count;
        let patch = json!({"series": {"count": series.count, "lastObservedTime": series.last_observed_time}});
        Some(Write::patch(key.clone(), self.event.clone(), patch))
    }

    fn write_if_behind(&mut self, key: &EventKey) -> Option<Write<Event>> {
        if self.written < self.count() { self.write(key) } else { None }
    }
}

impl EventWriter for Series {
    type Event = Event;

    const HAS_SERIES: bool = true;

    fn pause(&self, _attempts: u32, chance: f64) -> Duration {
        jitter(self.options.pause, 0.25, chance)
    }

    fn observe(&mut self, occurrence: &Occurrence) -> Observed<Event> {
        let key = occurrence.series_key();
        let Some(entry) = self.entries.get_mut(&key) else { return self.begin(key, occurrence) };
        let is_first_of_series = entry.event.series.is_none();
        entry.add(occurrence);
        if !is_first_of_series {
            return Observed::counted();
        }
        if !self.spam.accepts(occurrence) {
            return Observed::spam();
        }
        let write = self.entries.peek_mut(&key).and_then(|entry| entry.write(&key));
        write.map_or_else(Observed::counted, Observed::write)
    }

    /// Removes a finished series unless it has continued meanwhile. A series that could not be written is kept.
    fn settled(&mut self, key: &EventKey, settled: Settled<'_, Event>) {
        let Some(entry) = self.entries.peek_mut(key) else { return };
        let is_over = entry.finishing.take() == Some(entry.count());
        match settled {
            Settled::Written(_) | Settled::Refused if is_over => drop(self.entries.pop(key)),
            Settled::Written(event) => {
                entry.event.metadata.resource_version.clone_from(&event.metadata.resource_version);
            }
            Settled::Refused | Settled::GivenUp => {}
        }
    }

    fn refresh(&mut self) -> Vec<Write<Event>> {
        self.entries.iter_mut().rev().filter_map(|(key, entry)| entry.write(key)).collect()
    }

    fn finish(&mut self, now: Duration) -> Vec<Write<Event>> {
        let silence = self.options.finish_after;
        let (mut writes, mut single) = (Vec::new(), Vec::new());
        for (key, entry) in self.entries.iter_mut().rev() {
            if now.saturating_sub(entry.last) <= silence {
                continue;
            }
            match entry.write(key) {
                Some(write) => {
                    entry.finishing = Some(entry.count());
                    writes.push(write);
                }
                None => single.push(key.clone()),
            }
        }
        for key in single {
            self.entries.pop(&key);
        }
        writes
    }

    fn unwritten(&mut self) -> Vec<Write<Event>> {
        self.entries.iter_mut().rev().filter_map(|(key, entry)| entry.write_if_behind(key)).collect()
    }
}

/// Returns the occurrence as an event of `events.k8s.io/v1`. Texts beyond the server's limits are truncated: half a
/// note is better than no event.
fn new_event(occurrence: &Occurrence) -> Event {
    let word = |text: &str| Some(cut(text, WORD_MAX).to_owned());
    let reporter = &occurrence.reporter;
    Event {
        metadata: ObjectMeta {
            name: Some(occurrence.name.clone()),
            namespace: Some(occurrence.namespace().to_owned()),
            annotations: (!occurrence.annotations.is_empty()).then(|| occurrence.annotations.clone()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(occurrence.at)),
        type_: Some(occurrence.event_type.as_str().to_owned()),
        reason: word(&occurrence.reason),
        action: word(occurrence.action()),
        note: Some(cut(&occurrence.note, NOTE_MAX).to_owned()),
        regarding: Some(occurrence.regarding.clone()),
        related: occurrence.related.clone(),
        reporting_controller: Some(reporter.controller.clone()),
        reporting_instance: word(&reporter.instance),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
