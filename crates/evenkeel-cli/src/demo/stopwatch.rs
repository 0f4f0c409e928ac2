//! How long things took: from a write to the moment at which the world was seen to be as it asked for. No clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::Gaps;

/// The writes of one phase, and how long each Foo that they were about took to converge. Times count from the start of the demo.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    /// When each Foo was last written to that has not been seen to converge since.
    pending: BTreeMap<String, Duration>,
    /// How long each of the others took.
    settled: BTreeMap<String, Duration>,
}

/// What a phase took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// How many Foos converged.
    pub(super) settled: usize,
    /// Half of them had converged so long after they were last written to.
    pub(super) median: Duration,
    /// The slowest took so long.
    pub(super) longest: Duration,
}

impl Stopwatch {
    /// Something was written that this Foo has to follow.
    pub(super) fn wrote(&mut self, subject: &str, now: Duration) {
        self.settled.remove(subject);
        self.pending.insert(subject.to_owned(), now);
    }

    /// The world was read from `began` to `now`, and this is wrong with it. A reading says nothing of what was written after it
    /// began.
    pub(super) fn looked(&mut self, began: Duration, now: Duration, gaps: &Gaps) {
        let Stopwatch { pending, settled, .. } = self;
        pending.retain(|foo, written| {
            let is_settled = *written <= began && !gaps.contains_key(foo);
            if is_settled {
                settled.insert(foo.clone(), now.saturating_sub(*written));
            }
            !is_settled
        });
    }

    /// How many Foos have converged, and how many were written to.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.settled.len(), self.settled.len() + self.pending.len())
    }

    pub(super) fn times(&self) -> Times {
        let mut took: Vec<Duration> = self.settled.values().copied().collect();
        took.sort_unstable();
        let at = |index: usize| took.get(index).copied().unwrap_or_default();
        Times {
            settled: took.len(),
            median: at(took.len().saturating_sub(1) / 2),
            longest: at(took.len().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests;
