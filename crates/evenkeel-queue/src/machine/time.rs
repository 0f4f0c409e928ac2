//! Time as the machine sees it.

use std::time::Duration;

/// Nanoseconds since the queue was made.
///
/// Times that keys wait until are whole ticks, of which an entry keeps the number. They are rounded up, so that nothing is ever
/// early. A tick is so short that timers do not notice, a whole part of a millisecond, and long enough for all ticks of 44 years
/// to be told apart in the bits that there are. That is longer than any process lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

const TICK: u64 = 20_000;

impl Time {
    pub(crate) const ZERO: Time = Time(0);
    /// As far ahead as a key can wait.
    pub(crate) const LAST: Time = Time(((1 << Self::BITS) - 1) * TICK);
    /// How many bits the number of a tick takes, so that it fits into a word with other things.
    pub(crate) const BITS: u32 = 46;

    pub(crate) fn from_duration(since_start: Duration) -> Time {
        let seconds = since_start.as_secs().saturating_mul(1_000_000_000);
        Time(seconds.saturating_add(u64::from(since_start.subsec_nanos()))).min(Self::LAST)
    }

    pub(crate) fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) fn from_ticks(ticks: u64) -> Time {
        Time(ticks.saturating_mul(TICK)).min(Self::LAST)
    }

    /// The number of the last tick that is not after this time.
    pub(crate) fn ticks(self) -> u64 {
        self.0 / TICK
    }

    /// The number of the first tick that is not before this time.
    pub(crate) fn ticks_up(self) -> u64 {
        self.0.div_ceil(TICK)
    }

    /// The first tick that is so long after this time, or the last there is; this time if there is nothing to wait for.
    pub(crate) fn after(self, wait: Duration) -> Time {
        if wait.is_zero() {
            return self;
        }
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Self::from_ticks(Time(self.0.saturating_add(wait)).ticks_up())
    }

    /// How long ago `earlier` was.
    pub(crate) fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
impl Time {
    /// How long so many ticks take.
    pub(crate) fn span(ticks: u64) -> Duration {
        Duration::from_nanos(ticks * TICK)
    }
}
