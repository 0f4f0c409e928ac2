//! [`SpamFilter`]: limits the writes per object.

use k8s_openapi::jiff::Timestamp;

use super::lru::Lru;
use super::options::{SinkOptions, Spam};
use super::{EventKey, Occurrence};

/// One token bucket per key. An occurrence that finds its bucket empty is spam.
#[derive(Debug)]
pub(crate) struct SpamFilter {
    options: SinkOptions,
    /// An evicted bucket returns full.
    buckets: Lru<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    counted: Timestamp,
}

/// A token counts as whole from here on, which absorbs rounding errors.
const WHOLE: f64 = 1.0 - 1e-6;

impl SpamFilter {
    pub(crate) fn new(options: &SinkOptions) -> Self {
        SpamFilter { buckets: Lru::new(options.cache_size), options: options.clone() }
    }

    /// Takes a token for the occurrence. Returns false if there is none.
    pub(crate) fn accepts(&mut self, occurrence: &Occurrence) -> bool {
        let Some(spam) = self.options.spam else { return true };
        let key = self.options.spam_key_of(occurrence);
        self.take(key, spam, occurrence.at)
    }

    fn take(&mut self, key: EventKey, spam: Spam, now: Timestamp) -> bool {
        let full = f64::from(spam.burst);
        let mut bucket = self.buckets.get(&key).copied().unwrap_or(Bucket { tokens: full, counted: now });
        // A clock that moves backwards adds no tokens.
        let passed = now.duration_since(bucket.counted).as_secs_f64().max(0.0);
        let each = spam.refill.as_secs_f64();
        let more = if each > 0.0 { passed / each } else { full };
        bucket.tokens = (bucket.tokens + more).min(full);
        bucket.counted = bucket.counted.max(now);
        let there = bucket.tokens >= WHOLE;
        if there {
            bucket.tokens -= 1.0;
        }
        self.buckets.put(key, bucket);
        there
    }
}
