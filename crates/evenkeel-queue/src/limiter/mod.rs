//! How long a key that failed has to wait.
//!
//! A limiter answers; it does not count. The queue counts the failures of each key and says how many there were, so a
//! limiter of one's own is usually a function of that number. Beside a queue, [`StandaloneLimiter`](crate::compat::StandaloneLimiter) does the counting.
//!
//! [`Exponential`] and [`FastSlow`] look at the key's failures alone; [`Bucket`] looks at all keys together; [`MaxOf`] and
//! [`MaxWait`] put others together. What a controller wants is nearly always [`default_item_limiter`].

mod bucket;
mod compose;
mod exponential;
mod fast_slow;

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_base::TokenBucket;

pub use bucket::{Bucket, BucketError};
pub use compose::{MaxOf, MaxWait};
pub use exponential::Exponential;
pub use fast_slow::FastSlow;

/// Says how long a key waits after a failure.
///
/// Called from any thread, and never under a lock of the queue. It must not block.
pub trait RateLimiter<K: ?Sized>: Send + Sync + 'static {
    /// How long `key` waits after it has failed for the `failures`-th time in a row; the first time is 1, and a queue
    /// counts up to 4,095.
    ///
    /// Asked once for each failure that counts, at the time `now`. Time does not go back, but of several threads that ask
    /// at once the one that read the clock first may come last.
    ///
    /// [`Duration::MAX`] means never. A queue takes any wait for that which would end when it is 44 years old.
    ///
    /// If this panics, so does whoever reported the failure, and the key waits as in a queue without a limiter of its own.
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration;

    /// `key` has succeeded. For limiters that remember keys by themselves.
    fn forget(&self, key: &K) {
        let _ = key;
    }

    /// The longest wait that the failures of a key can lead to, if there is such a thing.
    ///
    /// A queue forgets the failures of a key that has not been seen for twice as long. `None` says that this limiter has no
    /// opinion on that: it knows no bound, or does not care how often a key has failed.
    fn longest(&self) -> Option<Duration> {
        None
    }
}

/// The limiter for the keys of a controller: each key for itself, from 1 ms after the first failure, doubling, to 1000 s.
pub fn default_item_limiter() -> Exponential {
    Exponential::new(Duration::from_millis(1), Duration::from_secs(1000))
}

/// The limiter that controllers written against client-go are used to: each key from 5 ms to 1000 s, doubling, and all
/// keys together no more than 10 retries a second after a burst of 100.
///
/// Every retry takes a token, also one that would have waited longer anyway. So a few hundred keys that keep failing slow
/// down the first retry of every other key. [`default_item_limiter`] knows no such neighbours.
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
