//! [`StallClock`]: decides when a request without progress is reported. No I/O; the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// The time without progress after which a request is reported. The next report follows after twice the time, each time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time between two reports.
const MAX_PATIENCE: Duration = Duration::from_secs(600);

/// The time since a request last made progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallClock {
    since: Instant,
    patience: Duration,
    report_at: Instant,
}

impl StallClock {
    pub(super) fn new(now: Instant) -> Self {
        StallClock { since: now, patience: PATIENCE, report_at: now + PATIENCE }
    }

    /// Records progress.
    pub(super) fn progress(&mut self, now: Instant) {
        *self = StallClock::new(now);
    }

    /// Returns when the next report is due, if there is no progress before.
    pub(super) fn report_at(&self) -> Instant {
        self.report_at
    }

    /// Returns when the request has been without progress for this long.
    pub(super) fn after(&self, time: Duration) -> Instant {
        self.since + time
    }

    /// Returns the time without progress.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Returns the time without progress if a report is due. The next one is due later.
    pub(super) fn due(&mut self, now: Instant) -> Option<Duration> {
        if now < self.report_at {
            return None;
        }
        self.patience = self.patience.saturating_mul(2).min(MAX_PATIENCE);
        self.report_at = now + self.patience;
        Some(self.waited(now))
    }
}

#[cfg(test)]
mod tests;
