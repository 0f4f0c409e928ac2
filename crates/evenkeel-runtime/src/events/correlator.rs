//! [`Correlator`]: aggregates, counts and rate-limits events of `v1`.
//!
//! ```text
//!  occurrence ──► aggregate ──► count ──► spam filter ──► create, or patch
//! ```
//!
//! Counting precedes the spam filter, so events that were filtered show in the count of the next one.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_base::scale;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use lru::LruCache;
use serde_json::json;

use super::event_writer::{EventWriter, Observed, Settled, Write};
use super::options::SinkOptions;
use super::spam::SpamFilter;
use super::{EventKey, Occurrence};

/// The state of a sink of `v1`.
#[derive(Debug)]
pub(crate) struct Correlator {
    options: SinkOptions,
    groups: LruCache<EventKey, Group>,
    counts: LruCache<EventKey, Counted>,
    spam: SpamFilter,
}

/// A group of similar events.
#[derive(Debug)]
struct Group {
    /// When the last one was recorded.
    last: Duration,
    /// The distinct notes, most recent last.
    notes: VecDeque<String>,
}

/// What is known of an event that was seen before.
#[derive(Clone, Debug)]
struct Counted {
    count: i32,
    first: Option<Time>,
    name: Option<String>,
    resource_version: Option<String>,
}

impl Correlator {
    pub(crate) fn new(options: &SinkOptions) -> Self {
        Correlator {
            groups: LruCache::sparse(options.cache_size),
            counts: LruCache::sparse(options.cache_size),
            spam: SpamFilter::new(options),
            options: options.clone(),
        }
    }

    /// Returns the event and the key it is counted under: its own, or that of its group.
    fn aggregate(&mut self, occurrence: &Occurrence) -> (EventKey, Event) {
        let Some(limit) = self.options.aggregate_at else { return (occurrence.count_key(), core_event(occurrence)) };
        let (key, note) = self.options.group_of(occurrence);
        let is_full = self.join(key.clone(), note, limit.max(1), occurrence.since_start);
        if !is_full {
            return (occurrence.count_key(), core_event(occurrence));
        }
        let message = Some(self.options.combined_note_of(occurrence));
        let mut event = Event { message, ..core_event(occurrence) };
        event.metadata.annotations = None;
        // A single event's key has more texts than a group's, so the two cannot collide; the extra text keeps that
        // true for groups of a user's own function.
        (EventKey::of(["combined"].into_iter().chain(key.texts())), event)
    }

    /// Adds to a group. Returns true if the group has so many distinct notes that its events are aggregated.
    fn join(&mut self, key: EventKey, note: String, limit: usize, now: Duration) -> bool {
        let age = self.options.group_age;
        let known = self.groups.get_mut(&key).filter(|group| now.saturating_sub(group.last) <= age);
        let mut notes = known.map(|group| std::mem::take(&mut group.notes)).unwrap_or_default();
        notes.retain(|known| *known != note);
        notes.push_back(note);
        let is_full = notes.len() >= limit;
        if is_full {
            notes.pop_front();
        }
        self.groups.put(key, Group { last: now, notes });
        is_full
    }

    /// Counts the event. One that was seen before keeps its name.
    fn count(&mut self, key: EventKey, mut event: Event) -> Write<Event> {
        let Some(known) = self.counts.get_mut(&key) else {
            let new = Counted::of(&event, 1);
            self.counts.put(key.clone(), new);
            return Write::create(key, event);
        };
        known.count = known.count.saturating_add(1);
        event.count = Some(known.count);
        event.first_timestamp.clone_from(&known.first);
        event.metadata.name.clone_from(&known.name);
        event.metadata.resource_version.clone_from(&known.resource_version);
        let patch = json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        });
        Write::patch(key, event, patch)
    }
}

impl EventWriter for Correlator {
    type Event = Event;

    const HAS_SERIES: bool = false;

    /// The second attempt is at a random time, so that writers that failed together do not retry together.
    fn pause(&self, attempts: u32, chance: f64) -> Duration {
        if attempts == 1 { scale(self.options.pause, chance) } else { self.options.pause }
    }

    fn observe(&mut self, occurrence: &Occurrence) -> Observed<Event> {
        let (key, event) = self.aggregate(occurrence);
        let write = self.count(key, event);
        if self.spam.accepts(occurrence) { Observed::write(write) } else { Observed::spam() }
    }

    /// Stores the server's version. More occurrences may have been counted since the write; the count never decreases.
    fn settled(&mut self, key: &EventKey, settled: Settled<'_, Event>) {
        let Settled::Written(event) = settled else { return };
        if let Some(known) = self.counts.peek_mut(key) {
            *known = Counted::of(event, known.count);
        }
    }
}

impl Counted {
    fn of(event: &Event, least: i32) -> Self {
        Counted {
            count: event.count.unwrap_or_default().max(least),
            first: event.first_timestamp.clone(),
            name: event.metadata.name.clone(),
            resource_version: event.metadata.resource_version.clone(),
        }
    }
}

/// Returns the occurrence as an event of `v1` with count 1.
fn core_event(occurrence: &Occurrence) -> Event {
    let reporter = &occurrence.reporter;
    let now = Time(occurrence.at);
    Event {
        metadata: ObjectMeta {
            name: Some(occurrence.name.clone()),
            namespace: Some(occurrence.namespace().to_owned()),
            annotations: (!occurrence.annotations.is_empty()).then(|| occurrence.annotations.clone()),
            ..ObjectMeta::default()
        },
        involved_object: occurrence.regarding.clone(),
        related: occurrence.related.clone(),
        action: occurrence.action.clone(),
        type_: Some(occurrence.event_type.as_str().to_owned()),
        reason: Some(occurrence.reason.clone()),
        message: Some(occurrence.note.clone()),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        source: Some(EventSource { component: Some(reporter.controller.clone()), host: reporter.host.clone() }),
        reporting_component: Some(reporter.controller.clone()),
        reporting_instance: reporter.host.clone(),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
