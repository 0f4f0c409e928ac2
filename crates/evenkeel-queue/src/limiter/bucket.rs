//! [`Bucket`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_base::TokenBucket;

use super::RateLimiter;

/// A token bucket that all keys share: each failure takes a token, and the bucket refills at a steady rate. client-go's
/// `BucketRateLimiter`.
///
/// A failure that finds the bucket empty reserves the next free token and waits for it. At one moment, a bucket of `burst`
/// tokens lets `burst` keys through at once; the `k`-th after them waits `k / rate` seconds. A reservation cannot be returned.
///
/// - In any interval, at most `burst + rate × time` reserved tokens come due, however the calls are spread. There is no drift.
/// - Waits are rounded up to a nanosecond. They have no bound: calls that keep arriving faster than the rate wait longer and
///   longer.
/// - A `now` before the latest one seen counts as the latest one, so a clock that is set back adds no tokens.
/// - A bucket that holds no token always returns [`Duration::MAX`].
///
/// The key and its failures are ignored, so [`longest`](RateLimiter::longest) is `None`.
#[derive(Debug)]
pub struct Bucket {
    state: Mutex<BucketState>,
}

#[derive(Debug)]
struct BucketState {
    tokens: TokenBucket,
    /// The origin of time: the first call.
    origin: Option<Instant>,
}

/// A [`Bucket`] was given an invalid rate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The rate is not a positive, finite number.
    #[error(
        "the rate of a bucket must be a positive number of tokens per second, not {rate}; for no limit, use no bucket"
    )]
    Rate {
        /// The rate, in tokens per second.
        rate: f64,
    },
}

impl Bucket {
    /// Returns a full bucket of `burst` tokens that refills at `rate` tokens per second. The rate is a positive, finite number.
    pub fn new(rate: f64, burst: u32) -> Result<Self, BucketError> {
        TokenBucket::per_second(rate, burst).map(Bucket::full).ok_or(BucketError::Rate { rate })
    }

    pub(super) fn full(tokens: TokenBucket) -> Self {
        Bucket { state: Mutex::new(BucketState { tokens, origin: None }) }
    }
}

impl<K: ?Sized> RateLimiter<K> for Bucket {
    fn when(&self, _key: &K, _failures: u32, now: Instant) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = *state.origin.get_or_insert(now);
        state.tokens.reserve(now.saturating_duration_since(origin))
    }
}

#[cfg(test)]
mod tests;
