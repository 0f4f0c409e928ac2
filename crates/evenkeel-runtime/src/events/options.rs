//! [`SinkOptions`]: how events are counted, aggregated, filtered and delivered.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::{EventKey, Occurrence};

/// How a sink counts, aggregates, filters and delivers events. The defaults are client-go's.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::events::{EventKey, SinkOptions};
///
/// let options = SinkOptions::new()
///     .spam_filter(10, Duration::from_secs(60))
///     .spam_key(|event| EventKey::of([event.regarding.uid.as_deref().unwrap_or_default(), &event.reason]))
///     .no_aggregation();
/// ```
#[derive(Clone)]
#[must_use = "options do nothing by themselves"]
pub struct SinkOptions {
    pub(crate) queue: usize,
    pub(crate) concurrency: usize,
    pub(crate) attempts: u32,
    pub(crate) pause: Duration,
    pub(crate) cache_size: NonZeroUsize,
    pub(crate) spam: Option<Spam>,
    pub(crate) aggregate_at: Option<usize>,
    pub(crate) group_age: Duration,
    pub(crate) refresh_every: Duration,
    pub(crate) finish_after: Duration,
    group_by: Option<Arc<GroupBy>>,
    combined_note: Option<Arc<CombinedNote>>,
    spam_key: Option<Arc<SpamKey>>,
}

type GroupBy = dyn Fn(&Occurrence) -> (EventKey, String) + Send + Sync;
type CombinedNote = dyn Fn(&Occurrence) -> String + Send + Sync;
type SpamKey = dyn Fn(&Occurrence) -> EventKey + Send + Sync;

/// The default size of each cache, as in client-go.
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// Effectively unlimited, and short enough to be added to any time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The size of a spam filter bucket and the time to refill one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spam {
    pub(crate) burst: u32,
    pub(crate) refill: Duration,
}

impl SinkOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        SinkOptions {
            queue: 1000,
            concurrency: 8,
            attempts: 12,
            pause: Duration::from_secs(10),
            cache_size: CACHE_SIZE,
            spam: Some(Spam { burst: 25, refill: Duration::from_secs(300) }),
            aggregate_at: Some(10),
            group_age: Duration::from_secs(600),
            refresh_every: Duration::from_secs(30 * 60),
            finish_after: Duration::from_secs(6 * 60),
            group_by: None,
            combined_note: None,
            spam_key: None,
        }
    }

    /// Sets how many events may be queued for the sink. Default: 1000. Events beyond it are dropped and counted. As
    /// many distinct ones again may be in flight to the server.
    pub fn queue(mut self, events: usize) -> Self {
        self.queue = events.max(1);
        self
    }

    /// Sets how many events are written concurrently. Default: 8. Writes of one Event object are always ordered.
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// Sets how many attempts a write gets. Default: 12.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the pause between attempts. Default: 10 seconds, or longer if the server asks for it.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause.min(FOR_EVER);
        self
    }

    /// Sets how many groups, counted events and spam filter buckets are cached, each. Default: 4096. The least
    /// recently used are evicted.
    pub fn cache_size(mut self, entries: usize) -> Self {
        self.cache_size = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Sets the burst of writes per object and the time to refill one. Default: 25, and 300 seconds. Filtered events
    /// are counted and show in the count of the next one that passes.
    pub fn spam_filter(mut self, burst: u32, refill: Duration) -> Self {
        self.spam = Some(Spam { burst, refill });
        self
    }

    /// Disables the spam filter.
    pub fn no_spam_filter(mut self) -> Self {
        self.spam = None;
        self
    }

    /// Sets which events share a spam filter bucket, in place of [`Occurrence::spam_key`]. The sink's task calls the
    /// function, so it must not block. If it panics, the event is lost.
    pub fn spam_key(mut self, key: impl Fn(&Occurrence) -> EventKey + Send + Sync + 'static) -> Self {
        self.spam_key = Some(Arc::new(key));
        self
    }

    /// Sets how many distinct notes aggregate similar events. Default: 10. For `v1` only; with `events.k8s.io` similar
    /// events are a series from the second one on.
    pub fn aggregate_at(mut self, notes: usize) -> Self {
        self.aggregate_at = Some(notes);
        self
    }

    /// Disables aggregation.
    pub fn no_aggregation(mut self) -> Self {
        self.aggregate_at = None;
        self
    }

    /// Sets how long after its last event a group is forgotten. Default: 600 seconds.
    pub fn group_age(mut self, age: Duration) -> Self {
        self.group_age = age;
        self
    }

    /// Sets the group key and the text that distinguishes events of a group, in place of [`Occurrence::group_key`] and
    /// the note. Called like [`spam_key`](Self::spam_key).
    pub fn group_by(mut self, group: impl Fn(&Occurrence) -> (EventKey, String) + Send + Sync + 'static) -> Self {
        self.group_by = Some(Arc::new(group));
        self
    }

    /// Sets the note of an aggregated event, in place of `(combined from similar events): ` and the last note. Called
    /// like [`spam_key`](Self::spam_key).
    pub fn combined_note(mut self, note: impl Fn(&Occurrence) -> String + Send + Sync + 'static) -> Self {
        self.combined_note = Some(Arc::new(note));
        self
    }

    /// Sets how often a continuing series is rewritten so that the server does not expire it. Default: 30 minutes. For
    /// `events.k8s.io` only.
    pub fn refresh_every(mut self, period: Duration) -> Self {
        self.refresh_every = period.clamp(Duration::from_secs(1), FOR_EVER);
        self
    }

    /// Sets after how long without events a series is finished, so that the next event starts a new one. Default: 6
    /// minutes. For `events.k8s.io` only.
    pub fn finish_after(mut self, silence: Duration) -> Self {
        self.finish_after = silence.clamp(Duration::from_secs(1), FOR_EVER);
        self
    }

    pub(crate) fn spam_key_of(&self, occurrence: &Occurrence) -> EventKey {
        self.spam_key.as_ref().map_or_else(|| occurrence.spam_key(), |key| key(occurrence))
    }

    pub(crate) fn group_of(&self, occurrence: &Occurrence) -> (EventKey, String) {
        match &self.group_by {
            Some(group) => group(occurrence),
            None => (occurrence.group_key(), occurrence.note.clone()),
        }
    }

    pub(crate) fn combined_note_of(&self, occurrence: &Occurrence) -> String {
        match &self.combined_note {
            Some(note) => note(occurrence),
            None => format!("(combined from similar events): {}", occurrence.note),
        }
    }
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOptions")
            .field("queue", &self.queue)
            .field("concurrency", &self.concurrency)
            .field("attempts", &self.attempts)
            .field("pause", &self.pause)
            .field("cache_size", &self.cache_size)
            .field("spam", &self.spam)
            .field("aggregate_at", &self.aggregate_at)
            .field("group_age", &self.group_age)
            .field("refresh_every", &self.refresh_every)
            .field("finish_after", &self.finish_after)
            .finish_non_exhaustive()
    }
}
