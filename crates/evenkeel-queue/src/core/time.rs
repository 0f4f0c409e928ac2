//! Time as the core sees it.

use std::time::Duration;

/// Microseconds since the queue was made.
///
/// Whoever drives the core rounds: what has passed is rounded down and what is to come is rounded up, so that nothing is ever
/// early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    pub(crate) const ZERO: Time = Time(0);
    /// As far ahead as a key can wait, which is a little more than two years from the start of the queue.
    pub(crate) const LAST: Time = Time((1 << Self::BITS) - 1);
    /// How many bits it takes, so that it fits into a word with other things.
    pub(crate) const BITS: u32 = 46;

    pub(crate) fn from_micros(micros: u64) -> Time {
        Time(micros.min(Self::LAST.0))
    }

    pub(crate) fn micros(self) -> u64 {
        self.0
    }

    /// The time that is so long after this one, or the last there is.
    pub(crate) fn after(self, wait: Duration) -> Time {
        let micros = wait.as_nanos().div_ceil(1_000);
        Self::from_micros(u64::try_from(micros).unwrap_or(u64::MAX).saturating_add(self.0))
    }

    /// How long ago `earlier` was.
    pub(crate) fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
