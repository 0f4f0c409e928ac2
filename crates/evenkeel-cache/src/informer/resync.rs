//! Decides when each handler is due for a resync. Arithmetic only: the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest resync period of a handler.
pub(crate) const MINIMUM: Duration = Duration::from_secs(1);

/// How often an informer checks whether a handler is due.
#[derive(Debug)]
pub(crate) struct ResyncCheck {
    /// The period of handlers without one of their own.
    default: Duration,
    period: Duration,
    started: bool,
}

/// When one handler is due for a resync.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResyncSchedule {
    /// The requested period.
    requested: Duration,
    /// The actual period; zero for never.
    period: Duration,
    /// `None` for never: the time is out of range.
    next: Option<Instant>,
}

impl ResyncCheck {
    /// Returns the check of an informer with this period; zero for never, unless a handler requests one.
    pub(crate) fn new(period: Duration) -> Self {
        ResyncCheck { default: period, period, started: false }
    }

    /// Returns the check period; zero for never.
    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// Fixes the period, unless it is zero and a later handler requests one.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    /// Returns the schedule of a handler with its own period, or with the informer's.
    ///
    /// Before the start the check period is that of the most demanding handler, and the other schedules must be
    /// [derived](ResyncSchedule::derive) again. After the start a handler cannot shorten it; if it is zero, the first handler with
    /// a period sets it.
    pub(crate) fn admit(&mut self, requested: Option<Duration>, now: Instant) -> ResyncSchedule {
        let mut requested = requested.unwrap_or(self.default);
        if requested > Duration::ZERO && requested < MINIMUM && requested != self.default {
            tracing::warn!(?requested, minimum = ?MINIMUM, "resync period of a handler is too short; raised to the minimum");
            requested = MINIMUM;
        }
        if requested > Duration::ZERO {
            let shorter = self.period.is_zero() || requested < self.period;
            if shorter && (!self.started || self.period.is_zero()) {
                self.period = requested;
            } else if shorter {
                tracing::warn!(
                    ?requested,
                    check = ?self.period,
                    "informer is running with a longer resync check period; raised the handler's period to it"
                );
            }
        }
        let mut schedule = ResyncSchedule { requested, period: Duration::ZERO, next: None };
        schedule.derive(self.period, now);
        schedule
    }
}

impl ResyncSchedule {
    /// Derives the actual period from the check period.
    pub(crate) fn derive(&mut self, check: Duration, now: Instant) {
        self.period = match (self.requested.is_zero(), check.is_zero()) {
            (false, false) => self.requested.max(check),
            _ => Duration::ZERO,
        };
        self.next = now.checked_add(self.period);
    }

    /// Returns the actual period; zero for never.
    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// Returns whether the handler is due. If so, it is due again after its period.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = !self.period.is_zero() && self.next.is_some_and(|next| now >= next);
        if due {
            self.next = now.checked_add(self.period);
        }
        due
    }
}

#[cfg(test)]
mod tests;
