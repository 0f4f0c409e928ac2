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
