//! [`Exponential`].

use std::time::{Duration, Instant};

use evenkeel_base::Backoff;

use super::RateLimiter;

/// Doubles the wait of a key with each consecutive failure, up to a maximum. client-go's `ItemExponentialFailureRateLimiter`.
///
/// Waits are exact: the `n`-th is `base` times 2 to the power of `n - 1`, or `max` if that is less. No number of failures
/// overflows. The limiter has no state and can be shared between queues.
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
}

impl Exponential {
    /// Returns a limiter with this wait after the first failure, and this maximum. If `base` is longer than `max`, each wait is
    /// `max`; if `base` is zero, each wait is zero.
    pub const fn new(base: Duration, max: Duration) -> Self {
        Exponential { base, max: if base.is_zero() { Duration::ZERO } else { max } }
    }

    pub(crate) fn wait(&self, failures: u32) -> Duration {
        Backoff::doubling(self.base, self.max).wait(failures)
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
