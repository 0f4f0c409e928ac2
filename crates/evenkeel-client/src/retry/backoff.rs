//! [`Backoff`]: how long to wait between attempts, and how many there are.

use std::time::Duration;

pub use evenkeel_base::jitter;
use evenkeel_base::scale;
use evenkeel_core::Status;

/// Waits that grow from attempt to attempt. A value, not a timer: it is given the dice and says how long to wait.
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
    /// By what the wait grows with every step; 0 leaves it as it is.
    pub factor: f64,
    /// How much longer than `duration` a wait may get by chance, as a part of it: 0.1 for up to a tenth. 0 for none.
    pub jitter: f64,
    /// How many attempts are left.
    pub steps: u32,
    /// What `duration` does not grow beyond. Reaching it also ends the attempts.
    pub cap: Option<Duration>,
}

/// For writes that others may have raced: five attempts, about 10 ms apart.
pub const DEFAULT_RETRY: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 1.0, jitter: 0.1, steps: 5, cap: None };

/// For writes that others are likely to race again and again: four attempts, 10, 50 and 250 ms apart.
pub const DEFAULT_BACKOFF: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 5.0, jitter: 0.1, steps: 4, cap: None };

impl Backoff {
    /// The wait that is due now, and takes the step to the next one.
    ///
    /// `random` is evenly spread over `[0, 1)`. Jitter does not add up: the wait after this one grows from what this one
    /// would have been without. Without steps left, the same wait comes again and again.
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

    /// How long to wait after an attempt that has failed; `None` if it was the last one, after which there is nothing to
    /// wait for.
    pub fn next_wait(&mut self, random: f64) -> Option<Duration> {
        if self.steps <= 1 {
            self.steps = 0;
            return None;
        }
        let wait = self.step(random);
        (self.steps > 0).then_some(wait)
    }
}

/// What a server asks to be waited for before the next try, if that is something to wait for.
pub(crate) fn server_retry_delay(status: &Status) -> Duration {
    const LONGEST: Duration = Duration::from_secs(300);
    status.retry_after().unwrap_or_default().min(LONGEST)
}

#[cfg(test)]
mod tests;
