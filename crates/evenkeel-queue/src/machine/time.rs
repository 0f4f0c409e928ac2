//! The time of the machine.

use std::time::Duration;

/// Nanoseconds since the queue was made.
///
/// Due times are whole ticks, and an entry stores the number of the tick. They are rounded up, so that no key is early. A tick is
/// shorter than the resolution of timers and divides a millisecond. 46 bits hold the ticks of 44 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

const TICK: u64 = 20_000;

impl Time {
    pub(crate) const ZERO: Time = Time(0);
    /// The latest due time.
    pub(crate) const LAST: Time = Time(((1 << Self::BITS) - 1) * TICK);
    /// The bits of a tick number, which shares a word with flags and failures.
    pub(crate) const BITS: u32 = 46;

    pub(crate) fn from_duration(since_start: Duration) -> Time {
        let seconds = since_start.as_secs().saturating_mul(1_000_000_000);
        Time(seconds.saturating_add(u64::from(since_start.subsec_nanos()))).min(Self::LAST)
    }

    #[inline]
    pub(crate) fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    #[inline]
    pub(crate) fn from_ticks(ticks: u64) -> Time {
        Time(ticks.saturating_mul(TICK)).min(Self::LAST)
    }

    /// Returns the last tick that is not after this time.
    #[inline]
    pub(crate) fn ticks(self) -> u64 {
        self.0 / TICK
    }

    /// Returns the first tick that is not before this time.
    #[inline]
    pub(crate) fn ticks_up(self) -> u64 {
        self.0.div_ceil(TICK)
    }

    /// Returns the first tick after a wait, at most [`LAST`](Self::LAST); this time itself if the wait is zero.
    #[inline]
    pub(crate) fn after(self, wait: Duration) -> Time {
        if wait.is_zero() {
            return self;
        }
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Self::from_ticks(Time(self.0.saturating_add(wait)).ticks_up())
    }

    /// Returns the time since `earlier`.
    #[inline]
    pub(crate) fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
impl Time {
    /// Returns the duration of a number of ticks.
    pub(crate) fn span(ticks: u64) -> Duration {
        Duration::from_nanos(ticks * TICK)
    }
}
