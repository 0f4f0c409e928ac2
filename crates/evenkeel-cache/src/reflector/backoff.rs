//! [`Backoff`]: how long the reflector waits after a failure. No clock and no dice of its own.

use std::time::Duration;

use evenkeel_core::duration::scale;
use tokio::time::Instant;

/// How long the reflector waits after a failure: longer every time, up to a limit, and a little by chance so that many
/// reflectors do not come back at once.
///
/// There is one such state for everything that a reflector does again: lists, watches and WatchLists. It begins anew when
/// the reflector has been [well](Self::reset_after) for a while, and not before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first wait, before jitter.
    pub initial: Duration,
    /// By what the wait grows with every failure.
    pub factor: f64,
    /// What the wait does not grow beyond, before jitter.
    pub cap: Duration,
    /// How much longer a wait may get by chance, as a part of it: 1.0 for up to twice as long. 0 for none.
    pub jitter: f64,
    /// How long a watch must have been open without a failure for the waits to begin anew.
    pub reset_after: Duration,
}

impl Default for Backoff {
    /// 0.8 s, doubled up to 30 s, each up to twice as long by chance; anew after two minutes without a failure.
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

/// No wait is shorter than this, whatever the curve: others must get their turn.
const SHORTEST: Duration = Duration::from_millis(1);

/// Where a reflector stands in its [`Backoff`].
#[derive(Debug)]
pub(super) struct BackoffState {
    curve: Backoff,
    /// The next wait, before jitter.
    base: Duration,
    /// How many failures there have been in a row.
    failures: u32,
    /// Since when nothing has failed.
    well_since: Option<Instant>,
}

impl BackoffState {
    pub(super) fn new(curve: Backoff) -> Self {
        BackoffState { curve, base: curve.initial.min(curve.cap), failures: 0, well_since: None }
    }

    /// Things work now.
    pub(super) fn well(&mut self, now: Instant) {
        self.well_since.get_or_insert(now);
    }

    /// Things have failed: how long to wait. `random` is evenly spread over `[0, 1)`.
    pub(super) fn failed(&mut self, now: Instant, random: f64) -> Duration {
        if let Some(since) = self.well_since.take()
            && now.saturating_duration_since(since) >= self.curve.reset_after
        {
            *self = BackoffState::new(self.curve);
        }
        self.failures = self.failures.saturating_add(1);
        let wait = self.base.saturating_add(scale(self.base, (self.curve.jitter * random).max(0.0)));
        self.base = scale(self.base, self.curve.factor).clamp(self.base.min(self.curve.cap), self.curve.cap);
        wait.max(SHORTEST)
    }

    /// How many failures there have been in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests;
