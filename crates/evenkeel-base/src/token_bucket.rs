//! [`TokenBucket`].

use std::time::Duration;

use crate::backoff::from_nanos;

/// A token bucket: it starts full, holds `burst` tokens and refills at a steady rate.
///
/// Times are durations since any fixed origin. A time before the latest one seen counts as the latest one, so a clock that is set
/// back adds no tokens.
///
/// Guarantees:
/// - In any interval, at most `burst + rate × time` tokens are taken or come due.
/// - There is no drift: tokens are counted in whole units, and each nanosecond adds the same number of them.
/// - Waits are rounded up to a nanosecond. A caller that waits that long finds its token.
/// - A bucket of zero tokens never has one: its waits are [`Duration::MAX`].
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    burst: u32,
    per_token: u128,
    per_nano: u128,
    /// Units missing from a full bucket. More than the bucket holds means that future tokens are reserved.
    missing: u128,
    latest: Duration,
}

/// Binary digits of a unit. Rates of one token in two seconds or more are an exact number of units. Slower rates are rounded
/// down.
const FRACTION: u32 = f64::MANTISSA_DIGITS;

impl TokenBucket {
    /// Returns a full bucket that refills at `rate` tokens per second. `None` if the rate is not a positive, finite number.
    pub fn per_second(rate: f64, burst: u32) -> Option<Self> {
        if !rate.is_finite() || rate <= 0.0 {
            return None;
        }
        // The cast truncates and saturates. A rate below one unit is one token in 285 million years.
        let per_nano = ((rate * (1_u64 << FRACTION) as f64) as u128).max(1);
        Some(TokenBucket { burst, per_token: 1_000_000_000 << FRACTION, per_nano, missing: 0, latest: Duration::ZERO })
    }

    /// Returns a full bucket that gains a token each `interval`. With an interval of zero the bucket is always full.
    pub fn every(interval: Duration, burst: u32) -> Self {
        let (per_token, per_nano) = match interval.as_nanos() {
            0 => (1, u128::from(u64::MAX)),
            nanos => (nanos, 1),
        };
        TokenBucket { burst, per_token, per_nano, missing: 0, latest: Duration::ZERO }
    }

    /// Takes a token. Returns false if there is none.
    pub fn try_take(&mut self, now: Duration) -> bool {
        self.refill(now);
        let has_token = self.missing.saturating_add(self.per_token) <= self.capacity();
        if has_token {
            self.missing += self.per_token;
        }
        has_token
    }

    /// Takes the next token that is not reserved and returns the wait until it is there. A reservation cannot be returned.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        if self.burst == 0 {
            return Duration::MAX;
        }
        self.refill(now);
        self.missing = self.missing.saturating_add(self.per_token);
        self.excess(self.missing)
    }

    /// Returns the wait until so many further tokens have been there. Takes none.
    pub fn wait_for(&mut self, now: Duration, tokens: u32) -> Duration {
        if self.burst == 0 && tokens > 0 {
            return Duration::MAX;
        }
        self.refill(now);
        self.excess(self.missing.saturating_add(self.per_token.saturating_mul(tokens.into())))
    }

    /// Returns the wait until no more than a full bucket is missing.
    fn excess(&self, missing: u128) -> Duration {
        from_nanos(missing.saturating_sub(self.capacity()).div_ceil(self.per_nano))
    }

    fn capacity(&self) -> u128 {
        self.per_token.saturating_mul(self.burst.into())
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.latest).as_nanos();
        self.latest = self.latest.max(now);
        self.missing = self.missing.saturating_sub(elapsed.saturating_mul(self.per_nano));
        if self.per_nano == u128::from(u64::MAX) && self.per_token == 1 {
            self.missing = 0;
        }
    }
}

#[cfg(test)]
mod tests;
