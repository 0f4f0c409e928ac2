//! Exponential backoff.

use std::time::{Duration, Instant};

/// The parameters of an exponential backoff. [`BackoffState`] counts the failures.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_base::Backoff;
///
/// let backoff = Backoff::doubling(Duration::from_millis(5), Duration::from_secs(1000));
/// assert_eq!(backoff.wait(1), Duration::from_millis(5));
/// assert_eq!(backoff.wait(4), Duration::from_millis(40));
/// assert_eq!(backoff.wait(u32::MAX), Duration::from_secs(1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first failure, before jitter.
    pub initial: Duration,
    /// Growth of the wait with each further failure. Factors below 1 count as 1.
    pub factor: f64,
    /// Upper bound of the wait, before jitter.
    pub cap: Duration,
    /// Largest random addition, as a fraction of the wait: 1.0 for up to twice the wait, 0 for none.
    pub jitter: f64,
    /// Time without a failure after which the next failure counts as the first.
    pub reset_after: Duration,
}

impl Default for Backoff {
    /// Returns the backoff of client-go's reflector: 0.8 s doubling to 30 s, jitter 1.0, reset after two minutes.
    fn default() -> Self {
        Backoff {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    /// Returns a backoff that doubles from `initial` to `cap`, without jitter, and never resets by time.
    pub const fn doubling(initial: Duration, cap: Duration) -> Self {
        Backoff { initial, factor: 2.0, cap, jitter: 0.0, reset_after: Duration::MAX }
    }

    /// Returns the wait after the given number of consecutive failures, before jitter. Zero counts as one.
    ///
    /// With a factor of 2 the wait is exact. No number of failures overflows.
    pub fn wait(&self, failures: u32) -> Duration {
        let growths = failures.saturating_sub(1);
        if self.initial.is_zero() {
            return Duration::ZERO;
        }
        if self.factor == 2.0 {
            let nanos = self.initial.as_nanos();
            let doubled = if growths < nanos.leading_zeros() { nanos << growths } else { u128::MAX };
            return if doubled < self.cap.as_nanos() { from_nanos(doubled) } else { self.cap };
        }
        let factor = if self.factor >= 1.0 { self.factor.powf(f64::from(growths)) } else { 1.0 };
        scale(self.initial, factor).min(self.cap)
    }

    /// Adds this backoff's jitter to a wait. `random` is uniform over `[0, 1)`.
    pub fn jittered(&self, wait: Duration, random: f64) -> Duration {
        wait.saturating_add(scale(wait, (self.jitter * random).max(0.0)))
    }
}

/// The consecutive failures of one component, and the backoff that follows from them.
#[derive(Clone, Copy, Debug)]
pub struct BackoffState {
    backoff: Backoff,
    failures: u32,
    healthy_since: Option<Instant>,
}

impl BackoffState {
    /// Returns a state without failures.
    pub const fn new(backoff: Backoff) -> Self {
        BackoffState { backoff, failures: 0, healthy_since: None }
    }

    /// Records that the component works. The reset window starts at the first call after a failure.
    pub fn succeeded(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// Records a failure and returns the wait before the next attempt. `random` is uniform over `[0, 1)`.
    pub fn failed(&mut self, now: Instant, random: f64) -> Duration {
        if let Some(since) = self.healthy_since.take()
            && now.saturating_duration_since(since) >= self.backoff.reset_after
        {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.backoff.jittered(self.backoff.wait(self.failures), random)
    }

    /// Clears the failures.
    pub fn reset(&mut self) {
        *self = BackoffState::new(self.backoff);
    }

    /// Returns the number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// Returns a duration between `duration` and `duration * (1 + factor)`. `random` is uniform over `[0, 1)`.
///
/// A factor that is not positive counts as 1, as in client-go's `wait.Jitter`.
pub fn jitter(duration: Duration, factor: f64, random: f64) -> Duration {
    let factor = if factor > 0.0 { factor } else { 1.0 };
    duration.saturating_add(scale(duration, factor * random))
}

/// Multiplies a duration by a factor. A product that is too long is [`Duration::MAX`]; a negative one is zero. A factor that is
/// not a number changes nothing.
pub fn scale(duration: Duration, factor: f64) -> Duration {
    if factor.is_nan() {
        return duration;
    }
    let seconds = duration.as_secs_f64() * factor;
    if seconds > 0.0 { Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

pub(crate) fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    u64::try_from(nanos / SECOND).map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % SECOND) as u32))
}

#[cfg(test)]
mod tests;
