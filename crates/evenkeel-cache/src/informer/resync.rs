//! When which handler is due to hear of everything again. Arithmetic only: no clock, no timer.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest period that a handler can have.
pub(crate) const MINIMUM: Duration = Duration::from_secs(1);

/// How often an informer looks whether a handler is due.
#[derive(Debug)]
pub(crate) struct ResyncCheck {
    /// What handlers get that ask for nothing.
    default: Duration,
    period: Duration,
    started: bool,
}

/// When one handler is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResyncSchedule {
    /// What it asked for.
    requested: Duration,
    /// What it gets: zero for never.
    period: Duration,
    /// `None` for never: not in this world's time.
    next: Option<Instant>,
}

impl ResyncCheck {
    /// The check of an informer with this period; zero for never, unless a handler asks for it.
    pub(crate) fn new(period: Duration) -> Self {
        ResyncCheck { default: period, period, started: false }
    }

    /// How often to look; zero for never.
    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// From now on the period is settled, unless it is zero and a handler comes that needs one.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    /// Takes a handler in, which asks for a period of its own or for the informer's.
    ///
    /// Before the start the informer looks as often as its most demanding handler needs; the schedules of the others have
    /// to be [derived](ResyncSchedule::derive) again then. Once it has started, a handler gets no more than what there is; but if
    /// there was nothing, the first handler that asks decides.
    pub(crate) fn admit(&mut self, requested: Option<Duration>, now: Instant) -> ResyncSchedule {
        let mut requested = requested.unwrap_or(self.default);
        if requested > Duration::ZERO && requested < MINIMUM && requested != self.default {
            tracing::warn!(?requested, minimum = ?MINIMUM, "the resync period of a handler is too short; it is raised");
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
                    "the informer runs already and looks less often than the handler asks for resyncs; its period is raised"
                );
            }
        }
        let mut schedule = ResyncSchedule { requested, period: Duration::ZERO, next: None };
        schedule.derive(self.period, now);
        schedule
    }
}

impl ResyncSchedule {
    /// Works out what the handler gets when the informer looks this often.
    pub(crate) fn derive(&mut self, check: Duration, now: Instant) {
        self.period = match (self.requested.is_zero(), check.is_zero()) {
            (false, false) => self.requested.max(check),
            _ => Duration::ZERO,
        };
        self.next = now.checked_add(self.period);
    }

    /// What the handler gets; zero for never.
    pub(crate) fn period(&self) -> Duration {
        self.period
    }

    /// Whether the handler is due. If it is, it is due again after its period.
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
