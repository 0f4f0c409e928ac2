//! [`Clock`].

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

#[cfg(planted)]
use evenkeel_base::planted::{Defect, is_planted};

/// A source of time and timers.
///
/// The default is [`TokioClock`]. Tests and simulations implement their own.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, which never decreases.
    fn now(&self) -> Instant;

    /// Returns a future that completes at `time` or later.
    fn sleep_until(&self, time: Instant) -> Sleep;
}

/// The future of a timer.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tokio's clock: real time, or the virtual time of a paused runtime.
///
/// `now` also works outside of a runtime, which is all that blocking workers need.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, time: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(time.into()))
    }
}

/// Returns the clock of a queue that is built without one.
pub(crate) fn default_clock() -> Box<dyn Clock> {
    #[cfg(planted)]
    if is_planted(Defect::DelayByTimeOfDay) {
        return Box::new(planted::TimeOfDayClock::new());
    }
    Box::new(TokioClock)
}

#[cfg(planted)]
mod planted {
    use std::time::Duration;

    use evenkeel_base::task::simulated_time_of_day;

    use super::*;

    /// The time of day, which jumps, in place of the time since a start.
    pub(super) struct TimeOfDayClock {
        start: Instant,
        time_of_day: Duration,
    }

    impl TimeOfDayClock {
        pub(super) fn new() -> Self {
            let time_of_day = simulated_time_of_day().unwrap_or_default();
            TimeOfDayClock { start: TokioClock.now(), time_of_day }
        }
    }

    impl Clock for TimeOfDayClock {
        fn now(&self) -> Instant {
            let time_of_day = simulated_time_of_day().unwrap_or_default();
            self.start + time_of_day.saturating_sub(self.time_of_day)
        }

        fn sleep_until(&self, time: Instant) -> Sleep {
            // As far away as it seems now.
            let wait = time.saturating_duration_since(self.now());
            TokioClock.sleep_until(TokioClock.now() + wait)
        }
    }
}
