//! [`MaxOf`] and [`MaxWait`]: limiters that combine limiters.

use std::fmt;
use std::time::{Duration, Instant};

use super::RateLimiter;

/// Returns the longest wait of several limiters. client-go's `MaxOfRateLimiter`.
///
/// Each member is called for each failure, so that a bucket loses a token even if another member's wait is longer. Without
/// members the wait is zero.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_queue::limiter::{Bucket, Exponential, MaxOf};
///
/// let limiter: MaxOf<String> = MaxOf::new()
///     .and(Exponential::new(Duration::from_millis(5), Duration::from_secs(60)))
///     .and(Bucket::new(50.0, 300)?);
/// # let _ = limiter;
/// # Ok::<(), evenkeel_queue::limiter::BucketError>(())
/// ```
pub struct MaxOf<K: ?Sized> {
    members: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K: ?Sized + 'static> MaxOf<K> {
    /// Returns a limiter without members.
    pub const fn new() -> Self {
        MaxOf { members: Vec::new() }
    }

    /// Adds a member.
    #[must_use]
    pub fn and(mut self, member: impl RateLimiter<K>) -> Self {
        self.members.push(Box::new(member));
        self
    }
}

impl<K: ?Sized + 'static> Default for MaxOf<K> {
    fn default() -> Self {
        MaxOf::new()
    }
}

impl<K: ?Sized> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("members", &self.members.len()).finish()
    }
}

impl<K: ?Sized + 'static> RateLimiter<K> for MaxOf<K> {
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration {
        self.members.iter().map(|member| member.when(key, failures, now)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.members.iter().for_each(|member| member.forget(key));
    }

    /// Returns the longest of the members that have one. A bucket beside an [`Exponential`](super::Exponential) does not extend it:
    /// buckets ignore failures.
    fn longest(&self) -> Option<Duration> {
        self.members.iter().filter_map(|member| member.longest()).max()
    }
}

/// Limits the waits of another limiter. client-go's `WithMaxWaitRateLimiter`.
///
/// The state of the other limiter changes as without the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// Limits the waits of `limiter` to `max`.
    pub const fn new(limiter: L, max: Duration) -> Self {
        MaxWait { limiter, max }
    }
}

impl<K: ?Sized, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration {
        self.limiter.when(key, failures, now).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn longest(&self) -> Option<Duration> {
        Some(self.limiter.longest().map_or(self.max, |longest| longest.min(self.max)))
    }
}
