//! Rate limiters: they compute how long a failed key waits.
//!
//! A limiter does not count. The queue counts the failures of each key and passes the number in, so a custom limiter is usually
//! a function of that number. Without a queue, `StandaloneLimiter` of the feature `compat` does the counting.
//!
//! [`Exponential`] depends on the failures of the key alone; [`Bucket`] on all keys together; [`MaxOf`] combines limiters. The
//! default of a queue is an [`Exponential`] from 5 ms to 1,000 s.

mod bucket;
pub(crate) mod compose;
mod exponential;
pub(crate) mod fast_slow;

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_base::TokenBucket;

pub use bucket::{Bucket, BucketError};
pub use compose::MaxOf;
pub use exponential::Exponential;

/// Computes how long a key waits after a failure.
///
/// The queue calls it from any thread and without a lock. It must not block.
pub trait RateLimiter<K: ?Sized>: Send + Sync + 'static {
    /// Returns the wait after the `failures`-th consecutive failure of `key`; the first is 1, and a queue counts up to 4,095.
    ///
    /// It is called once for each failure that counts, at the time `now`. Time does not decrease, but concurrent calls may arrive
    /// in another order than they read the clock.
    ///
    /// [`Duration::MAX`] means never, and so does any wait beyond 44 years after the queue was built.
    ///
    /// If it panics, the verdict that reported the failure panics, and the key waits for the default backoff.
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration;

    /// Reports that `key` succeeded, for limiters with state per key.
    fn forget(&self, key: &K) {
        let _ = key;
    }

    /// Returns the longest wait that failures of a key can lead to.
    ///
    /// A queue keeps the failures of an idle key for twice as long. `None` means that the waits have no bound or do not depend on
    /// the failures.
    fn longest(&self) -> Option<Duration> {
        None
    }
}

/// Returns client-go's default limiter of controllers: each key from 5 ms to 1,000 s, doubling, and all keys together 10 retries
/// per second after a burst of 100.
///
/// Each retry takes a token, even one that would have waited longer anyway. A few hundred failing keys therefore delay the first
/// retry of all other keys. An [`Exponential`] alone treats each key by itself.
pub fn default_controller_limiter<K: ?Sized + 'static>() -> MaxOf<K> {
    MaxOf::new()
        .and(Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)))
        .and(Bucket::full(TokenBucket::every(Duration::from_millis(100), 100)))
}

impl<K: ?Sized, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Arc<L> {
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration {
        (**self).when(key, failures, now)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn longest(&self) -> Option<Duration> {
        (**self).longest()
    }
}

impl<K: ?Sized, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration {
        (**self).when(key, failures, now)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn longest(&self) -> Option<Duration> {
        (**self).longest()
    }
}

#[cfg(test)]
mod tests;
