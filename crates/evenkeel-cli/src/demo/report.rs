//! Reports of the demo to its display.

use std::time::Duration;

use super::plan::Phase;
use super::stopwatch::Times;

/// A report.
#[derive(Debug)]
pub(super) enum Report {
    /// A phase started.
    Started { phase: Phase, writes: usize },
    /// A write was sent.
    Wrote,
    /// The state was checked: converged Foos, of the written ones.
    Checked { settled: usize, written: usize },
    /// A phase ended.
    Ended(Ended),
    /// A message.
    Message { importance: Importance, text: String },
}

impl Report {
    /// Returns the log line of the report, if it has one.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Report::Started { phase, writes } => Some(format!("{}: {} ({writes} writes)", phase.name(), phase.about())),
            Report::Ended(ended) => Some(ended.line()),
            Report::Message { importance: Importance::Faint, .. } | Report::Wrote | Report::Checked { .. } => None,
            Report::Message { text, .. } => Some(text.clone()),
        }
    }
}

/// Importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Importance {
    /// Frequent; not logged to a file.
    Faint,
    Good,
    Bad,
}

/// Result of a phase.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) phase: Phase,
    pub(super) writes: usize,
    pub(super) times: Times,
    /// Duration from the first write.
    pub(super) took: Duration,
    /// From the last write, or the end of the outage, until everything had converged.
    pub(super) convergence: Duration,
    /// Mismatches; empty if everything converged.
    pub(super) mismatches: super::verify::Mismatches,
}

impl Ended {
    fn line(&self) -> String {
        let (name, convergence) = (self.phase.name(), self.convergence.as_secs_f64());
        let since = if self.phase == Phase::Outage { "the end of the outage" } else { "the last write" };
        match self.mismatches.len() {
            0 => format!("{name}: {} Foos converged, the last {convergence:.2} s after {since}", self.times.settled),
            mismatches => format!("{name}: {mismatches} did not converge, no progress for {convergence:.0} s"),
        }
    }
}
