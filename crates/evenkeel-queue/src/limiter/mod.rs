//! How long a key that failed has to wait.
//!
//! A limiter answers; it does not count. The queue counts the failures of each key and says how many there were, so a
//! limiter of one's own is usually a function of that number. Beside a queue, `Counted` does the counting.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says how long a key waits after a failure.
///
/// Called from any thread, and never under a lock of the queue.
pub trait RateLimiter<K: ?Sized>: Send + Sync + 'static {
    /// How long `key` waits after it has failed for the `failures`-th time in a row; the first time is 1.
    ///
    /// Asked once for each failure that counts, at the time `now`, which never goes back.
    fn when(&self, key: &K, failures: u32, now: Instant) -> Duration;

    /// `key` has succeeded. For limiters that remember keys by themselves.
    fn forget(&self, key: &K) {
        let _ = key;
    }

    /// The longest wait that this one can ask for, if it knows.
    ///
    /// A queue forgets the failures of a key that has not been seen for twice as long.
    fn longest(&self) -> Option<Duration> {
        None
    }
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
