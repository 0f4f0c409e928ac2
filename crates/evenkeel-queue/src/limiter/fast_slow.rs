//! [`FastSlow`]: a few quick attempts, then patience.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// The first few failures in a row wait a short time each, all later ones a long time. client-go's
/// `ItemFastSlowRateLimiter`.
///
/// It keeps no state: one of them serves any number of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSlow {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl FastSlow {
    /// Waits `fast` after each of the first `fast_attempts` failures, and `slow` after each later one.
    ///
    /// A queue counts up to 4,095 failures in a row: with as many attempts or more, it never becomes slow.
    pub const fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        FastSlow { fast, slow, fast_attempts }
    }
}

impl<K: ?Sized> RateLimiter<K> for FastSlow {
    fn when(&self, _key: &K, failures: u32, _now: Instant) -> Duration {
        if failures <= self.fast_attempts { self.fast } else { self.slow }
    }

    fn longest(&self) -> Option<Duration> {
        Some(self.fast.max(self.slow))
    }
}
