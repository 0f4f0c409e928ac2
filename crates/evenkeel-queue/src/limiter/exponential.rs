//! [`Exponential`]: every failure in a row doubles the wait.

use std::time::{Duration, Instant};

use super::RateLimiter;

/// Every failure in a row doubles the wait of the key, from a first one up to a longest one. client-go's
/// `ItemExponentialFailureRateLimiter`.
///
/// The waits are exact: the `n`-th is the first one times 2 to the power of `n - 1`, or the longest one if that is less.
/// There is no number of failures that overflows. It keeps no state: one of them serves any number of queues.
///
/// ```
/// use std::time::{Duration, Instant};
/// use evenkeel_queue::limiter::{Exponential, RateLimiter};
///
/// let limiter = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));
/// let now = Instant::now();
/// assert_eq!(limiter.when("web-0", 1, now), Duration::from_millis(5));
/// assert_eq!(limiter.when("web-0", 4, now), Duration::from_millis(40));
/// assert_eq!(limiter.when("web-0", u32::MAX, now), Duration::from_secs(1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    base: Duration,
    max: Duration,
    /// After how many doublings the wait is `max`. With fewer it is less, so nothing below it can overflow.
    doublings: u32,
}

impl Exponential {
    /// The wait after the first failure, and the longest one. If the first is longer than the longest, every wait is the
    /// longest one; if it is zero, every wait is zero.
    pub const fn new(base: Duration, max: Duration) -> Self {
        if base.is_zero() {
            return Exponential { base, max: Duration::ZERO, doublings: 0 };
        }
        let mut doublings = 0;
        // A duration has no more than 94 bits of nanoseconds, and this stops at the first one that is not less than it.
        while (base.as_nanos() << doublings) < max.as_nanos() {
            doublings += 1;
        }
        Exponential { base, max, doublings }
    }

    pub(crate) fn wait(&self, failures: u32) -> Duration {
        let mut doublings = failures.saturating_sub(1);
        if doublings >= self.doublings {
            return self.max;
        }
        let mut wait = self.base;
        // Seldom: when a wait of nanoseconds has become one of seconds.
        while doublings > 31 {
            wait = wait.saturating_mul(1 << 31);
            doublings -= 31;
        }
        wait.saturating_mul(1 << doublings)
    }
}

impl<K: ?Sized> RateLimiter<K> for Exponential {
    fn when(&self, _key: &K, failures: u32, _now: Instant) -> Duration {
        self.wait(failures)
    }

    fn longest(&self) -> Option<Duration> {
        Some(self.max)
    }
}
