//! [`FastSlow`].

use std::time::{Duration, Instant};

use super::RateLimiter;

/// A short wait for the first consecutive failures, a long one for later ones. client-go's `ItemFastSlowRateLimiter`.
///
/// The limiter has no state and can be shared between queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSlow {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl FastSlow {
    /// Waits `fast` after each of the first `fast_attempts` failures, and `slow` after each later one.
    ///
    /// A queue counts up to 4,095 consecutive failures: with as many fast attempts or more, no wait is slow.
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
