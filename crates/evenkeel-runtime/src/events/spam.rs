//! [`SpamFilter`]: limits the writes per object.

use std::time::Duration;

use evenkeel_base::TokenBucket;
use lru::LruCache;

use super::options::{SinkOptions, Spam};
use super::{EventKey, Occurrence};

/// One token bucket per key. An occurrence that finds its bucket empty is spam.
#[derive(Debug)]
pub(crate) struct SpamFilter {
    options: SinkOptions,
    /// An evicted bucket returns full.
    buckets: LruCache<EventKey, TokenBucket>,
}

impl SpamFilter {
    pub(crate) fn new(options: &SinkOptions) -> Self {
        SpamFilter { buckets: LruCache::sparse(options.cache_size), options: options.clone() }
    }

    /// Takes a token for the occurrence. Returns false if there is none.
    pub(crate) fn accepts(&mut self, occurrence: &Occurrence) -> bool {
        let Some(spam) = self.options.spam else { return true };
        let key = self.options.spam_key_of(occurrence);
        self.take(key, spam, occurrence.since_start)
    }

    fn take(&mut self, key: EventKey, spam: Spam, now: Duration) -> bool {
        if let Some(bucket) = self.buckets.get_mut(&key) {
            return bucket.try_take(now);
        }
        let mut bucket = TokenBucket::every(spam.refill, spam.burst);
        let has_token = bucket.try_take(now);
        self.buckets.put(key, bucket);
        has_token
    }
}
