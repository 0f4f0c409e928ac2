//! Reports of the demo of replicas to its display.

use std::collections::BTreeSet;
use std::time::Duration;

use super::division::Division;
use super::plan::Phase;
use super::record::Gaps;

#[derive(Debug)]
pub(super) enum Report {
    Started(Phase),
    Looked(Snapshot),
    Message {
        is_bad: bool,
        text: String,
    },
    Ended(Ended),
    /// The objects on the server were compared; none if everything is as it should be.
    Verified(Option<String>),
}

/// The state of the ring and of the replicas.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) division: Division,
    /// The running replicas and the number of their reconciles.
    pub(super) replicas: Vec<(String, u64)>,
    pub(super) leaving: Option<String>,
    pub(super) crashed: BTreeSet<String>,
    pub(super) reconciles: u64,
    pub(super) overlaps: u64,
    /// Why the phase has not converged.
    pub(super) waiting: Option<String>,
}

/// Result of a phase.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) phase: Phase,
    pub(super) took: Duration,
    /// Number of slices that got another owner.
    pub(super) moves: usize,
    /// Time in which a part of the hash space had no running owner.
    pub(super) unowned: Duration,
    pub(super) gaps: Gaps,
    /// What did not converge.
    pub(super) problem: Option<String>,
}

impl Snapshot {
    /// Returns the replicas that work.
    pub(super) fn working(&self) -> BTreeSet<String> {
        self.replicas.iter().map(|(identity, _)| identity).chain(&self.leaving).cloned().collect()
    }
}

impl Report {
    /// Returns the log line of the report, if it has one.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Report::Started(phase) => Some(format!("{}: {}", phase.name(), phase.about())),
            Report::Ended(ended) => Some(ended.line()),
            Report::Message { text, .. } => Some(text.clone()),
            Report::Looked(_) | Report::Verified(_) => None,
        }
    }
}

impl Ended {
    fn line(&self) -> String {
        let (name, took) = (self.phase.name(), self.took.as_secs_f64());
        match &self.problem {
            None => {
                let (moved, gap) = (self.gaps.moved, self.gaps.longest.as_secs_f64());
                format!("{name}: converged after {took:.1} s; {moved} keys moved, longest gap {gap:.2} s")
            }
            Some(problem) => format!("{name}: did not converge within {took:.0} s: {problem}"),
        }
    }
}
