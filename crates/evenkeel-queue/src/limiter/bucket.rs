//! [`Bucket`]: so many retries a second for all keys together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::RateLimiter;

/// A token bucket that all keys share: it starts full, every failure takes a token, and the bucket fills at a steady rate.
/// client-go's `BucketRateLimiter`.
///
/// Whoever finds the bucket empty reserves the next token that nobody has reserved yet, and waits until it is there. At one
/// moment, a bucket of `burst` tokens lets `burst` keys through at once; the `k`-th after them waits `k / rate` seconds. A
/// reservation cannot be given back.
///
/// - In any stretch of time no more than `burst + rate × time` reserved tokens come due, however the calls are spread. There
///   is no drift: tokens are counted in whole units of which every nanosecond adds the same number.
/// - Waits are rounded up to a nanosecond. They have no bound: calls that keep coming faster than the rate wait longer
///   and longer.
/// - A `now` before the latest one seen counts as that one, so a clock that goes back makes no tokens.
/// - A bucket that holds no token at all answers [`Duration::MAX`], always.
///
/// It does not care which key asks or how often it has failed, so it has no opinion on how long failures are worth
/// remembering.
#[derive(Debug)]
pub struct Bucket {
    burst: u32,
    /// Units that a nanosecond adds.
    per_nano: u128,
    state: Mutex<TokenBucketState>,
}

#[derive(Debug)]
struct TokenBucketState {
    /// Units that are missing from a full bucket. Whatever is more than the bucket holds has been reserved.
    missing: u128,
    /// The latest time seen; none before the first call.
    latest: Option<Instant>,
}

/// Binary digits of a unit. With as many as a float has, every rate of one in two seconds or more is an exact number of
/// units; of slower ones less than a unit is cut off, which makes them slower, never faster.
const FRACTION: u32 = f64::MANTISSA_DIGITS;
/// The units of a token: those of a second at a rate of one.
const TOKEN: u128 = 1_000_000_000 << FRACTION;

/// Why there can be no such bucket.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// No bucket fills at this rate.
    #[error("a bucket fills at a positive number of tokens per second, not at {rate}; for no limit, use no bucket")]
    Rate {
        /// What was asked for, in tokens per second.
        rate: f64,
    },
}

impl Bucket {
    /// A full bucket of `burst` tokens, which fills at `rate` tokens per second. The rate is a positive, finite number.
    pub fn new(rate: f64, burst: u32) -> Result<Self, BucketError> {
        if rate.is_finite() && rate > 0.0 { Ok(Bucket::full(rate, burst)) } else { Err(BucketError::Rate { rate }) }
    }

    /// [`new`](Self::new) for a rate that is known to be a good one.
    pub(super) fn full(rate: f64, burst: u32) -> Self {
        // The cast cuts off fractions and keeps within bounds. A rate too slow for a unit is one in 285 million years.
        let per_nano = ((rate * (1_u64 << FRACTION) as f64) as u128).max(1);
        Bucket { burst, per_nano, state: Mutex::new(TokenBucketState { missing: 0, latest: None }) }
    }

    fn reserve(&self, now: Instant) -> Duration {
        if self.burst == 0 {
            return Duration::MAX;
        }
        let missing = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let latest = state.latest.map_or(now, |latest| latest.max(now));
            let elapsed = latest.saturating_duration_since(state.latest.unwrap_or(latest)).as_nanos();
            state.latest = Some(latest);
            state.missing = state.missing.saturating_sub(elapsed.saturating_mul(self.per_nano)).saturating_add(TOKEN);
            state.missing
        };
        let reserved = missing.saturating_sub(u128::from(self.burst) * TOKEN);
        from_nanos(reserved.div_ceil(self.per_nano))
    }
}

impl<K: ?Sized> RateLimiter<K> for Bucket {
    fn when(&self, _key: &K, _failures: u32, now: Instant) -> Duration {
        self.reserve(now)
    }
}

fn from_nanos(nanos: u128) -> Duration {
    match u64::try_from(nanos) {
        Ok(nanos) => Duration::from_nanos(nanos),
        Err(_) => {
            let below_a_second = (nanos % 1_000_000_000) as u32;
            u64::try_from(nanos / 1_000_000_000).map_or(Duration::MAX, |seconds| Duration::new(seconds, below_a_second))
        }
    }
}

#[cfg(test)]
mod tests;
