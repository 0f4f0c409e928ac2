//! The backoff of a reflector. Time and random numbers are arguments.

use std::time::Duration;

pub use evenkeel_base::Backoff;
use tokio::time::Instant;

/// The shortest wait, whatever the parameters: a failing reflector never spins.
const SHORTEST: Duration = Duration::from_millis(1);

/// The backoff of one reflector, shared by its lists, watches and WatchLists. It resets after [`Backoff::reset_after`] without a
/// failure.
#[derive(Debug)]
pub(super) struct BackoffState(evenkeel_base::BackoffState);

impl BackoffState {
    pub(super) fn new(backoff: Backoff) -> Self {
        BackoffState(evenkeel_base::BackoffState::new(backoff))
    }

    /// Records that the reflector works.
    pub(super) fn succeeded(&mut self, now: Instant) {
        self.0.succeeded(now.into_std());
    }

    /// Records a failure and returns the wait before the next attempt. `random` is uniform over `[0, 1)`.
    pub(super) fn failed(&mut self, now: Instant, random: f64) -> Duration {
        self.0.failed(now.into_std(), random).max(SHORTEST)
    }

    /// Returns the number of consecutive failures.
    pub(super) fn failures(&self) -> u32 {
        self.0.failures()
    }
}

#[cfg(test)]
mod tests;
