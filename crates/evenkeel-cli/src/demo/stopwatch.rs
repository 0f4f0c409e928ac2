//! Measures convergence: from a write until the state is as requested. It has no clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::verify::Mismatches;

/// The writes of one phase, and the time each Foo took to converge. Times are relative to the start of the demo.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    /// Time of the last write to each Foo that has not converged since.
    pending: BTreeMap<String, Duration>,
    /// Convergence time of the others.
    settled: BTreeMap<String, Duration>,
}

/// Convergence times of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Number of converged Foos.
    pub(super) settled: usize,
    /// Median, from the last write.
    pub(super) median: Duration,
    /// Maximum.
    pub(super) longest: Duration,
}

impl Stopwatch {
    /// Records a write that concerns this Foo.
    pub(super) fn wrote(&mut self, subject: &str, now: Duration) {
        self.settled.remove(subject);
        self.pending.insert(subject.to_owned(), now);
    }

    /// Records a check from `began` to `now` with its mismatches. It does not cover writes after its start.
    pub(super) fn checked(&mut self, began: Duration, now: Duration, mismatches: &Mismatches) {
        let Stopwatch { pending, settled, .. } = self;
        pending.retain(|foo, written| {
            let is_settled = *written <= began && !mismatches.contains_key(foo);
            if is_settled {
                settled.insert(foo.clone(), now.saturating_sub(*written));
            }
            !is_settled
        });
    }

    /// Returns the numbers of converged and of written Foos.
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
