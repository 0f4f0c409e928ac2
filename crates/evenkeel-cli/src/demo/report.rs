//! What the story and the stage tell those who look on.

use std::time::Duration;

use super::plan::Phase;
use super::stopwatch::Times;

/// Something to tell.
#[derive(Debug)]
pub(super) enum Report {
    /// A phase begins.
    Began { phase: Phase, writes: usize },
    /// Something was written.
    Wrote,
    /// The world was looked at: so many Foos have converged, of so many that were written to.
    Looked { settled: usize, written: usize },
    /// A phase is over.
    Ended(Ended),
    /// Something happened beside.
    Happened { tone: Tone, text: String },
}

impl Report {
    /// A line of the story, if this is worth one.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Report::Began { phase, writes } => Some(format!("{}: {} ({writes} writes)", phase.name(), phase.about())),
            Report::Ended(ended) => Some(ended.line()),
            Report::Happened { tone: Tone::Faint, .. } | Report::Wrote | Report::Looked { .. } => None,
            Report::Happened { text, .. } => Some(text.clone()),
        }
    }
}

/// How loudly something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// It happens all the time, and is not worth a line of a file.
    Faint,
    Good,
    Bad,
}

/// What a phase came to.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) phase: Phase,
    pub(super) writes: usize,
    pub(super) times: Times,
    /// How long it took, from its first write.
    pub(super) took: Duration,
    /// From its last write, or from the end of the outage, until everything had converged.
    pub(super) convergence: Duration,
    /// What did not converge, and why; empty if everything did.
    pub(super) gaps: super::judge::Gaps,
}

impl Ended {
    fn line(&self) -> String {
        let (name, convergence) = (self.phase.name(), self.convergence.as_secs_f64());
        let since = if self.phase == Phase::Outage { "the end of the outage" } else { "the last write" };
        match self.gaps.len() {
            0 => format!("{name}: {} Foos converged, the last {convergence:.2} s after {since}", self.times.settled),
            gaps => format!("{name}: {gaps} did not converge, and nothing got better for {convergence:.0} s"),
        }
    }
}
