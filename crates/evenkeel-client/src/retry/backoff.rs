//! [`Backoff`]: the waits between attempts, and their number.

use std::time::Duration;

pub use evenkeel_base::jitter;
use evenkeel_base::scale;
use evenkeel_core::Status;

/// Exponential backoff. A value, not a timer: it takes a random number and returns the wait.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_client::Backoff;
///
/// let mut backoff = Backoff { jitter: 0.0, ..evenkeel_client::DEFAULT_BACKOFF };
/// assert_eq!(backoff.step(0.5), Duration::from_millis(10));
/// assert_eq!(backoff.step(0.5), Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The next wait, before jitter.
    pub duration: Duration,
    /// The factor by which the wait grows; 0 keeps it.
    pub factor: f64,
    /// The maximal random extension of a wait, relative to `duration`: 0.1 for up to a tenth. 0 for none.
    pub jitter: f64,
    /// The number of attempts left.
    pub steps: u32,
    /// The maximal `duration`. Reaching it also ends the attempts.
    pub cap: Option<Duration>,
}

/// For writes with occasional conflicts: five attempts, about 10 ms apart.
pub const DEFAULT_RETRY: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 1.0, jitter: 0.1, steps: 5, cap: None };

/// For writes with frequent conflicts: four attempts, 10, 50 and 250 ms apart.
pub const DEFAULT_BACKOFF: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 5.0, jitter: 0.1, steps: 4, cap: None };

impl Backoff {
    /// Returns the current wait, and advances to the next one.
    ///
    /// `random` is uniform in `[0, 1)`. Jitter does not accumulate: the next wait grows from this one without jitter.
    /// Without steps left, the wait stays the same.
    pub fn step(&mut self, random: f64) -> Duration {
        let wait = if self.jitter > 0.0 { jitter(self.duration, self.jitter, random) } else { self.duration };
        if self.steps == 0 {
            return wait;
        }
        self.steps -= 1;
        if self.factor != 0.0 {
            self.duration = scale(self.duration, self.factor);
        }
        if let Some(cap) = self.cap.filter(|cap| *cap > Duration::ZERO && self.duration > *cap) {
            self.duration = cap;
            self.steps = 0;
        }
        wait
    }

    /// Returns the wait after a failed attempt; `None` after the last one.
    pub fn next_wait(&mut self, random: f64) -> Option<Duration> {
        if self.steps <= 1 {
            self.steps = 0;
            return None;
        }
        let wait = self.step(random);
        (self.steps > 0).then_some(wait)
    }
}

/// Returns the server's suggested delay before a retry, capped at five minutes.
pub(crate) fn server_retry_delay(status: &Status) -> Duration {
    const LONGEST: Duration = Duration::from_secs(300);
    status.retry_after().unwrap_or_default().min(LONGEST)
}

#[cfg(test)]
mod tests;
