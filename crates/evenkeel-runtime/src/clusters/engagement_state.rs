//! [`EngagementState`]: how far a controller is with a cluster, and when it tries again. Decisions only: the time is an argument.

use std::time::Duration;

use evenkeel_base::{Backoff, BackoffState};
use tokio::time::Instant;

use super::failure::ClusterFailure;

/// The wait before a cluster is tried again.
pub(super) const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(300));

/// How far a controller is with a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngagementPhase {
    /// The caches are filled.
    Starting,
    /// The caches have synced, and workers reconcile.
    Synced,
    /// The last attempt failed. The next one starts then.
    Waiting {
        /// When the next attempt starts.
        until: Instant,
    },
}

/// How far a controller is with a cluster.
#[derive(Debug)]
pub(super) struct EngagementState {
    phase: EngagementPhase,
    backoff: BackoffState,
    failures: u64,
    last_failure: Option<ClusterFailure>,
}

impl EngagementState {
    pub(super) fn new() -> Self {
        EngagementState {
            phase: EngagementPhase::Starting,
            backoff: BackoffState::new(BACKOFF),
            failures: 0,
            last_failure: None,
        }
    }

    /// An attempt starts.
    pub(super) fn start(&mut self) {
        self.phase = EngagementPhase::Starting;
    }

    /// The caches have synced, so the next failure counts as the first.
    pub(super) fn synced(&mut self) {
        self.phase = EngagementPhase::Synced;
        self.backoff.reset();
    }

    /// The attempt failed. Returns when the next one starts.
    pub(super) fn failed(&mut self, failure: ClusterFailure) -> Instant {
        // The backoff has no jitter, so the random number has no effect.
        let until = failure.at + self.backoff.failed(failure.at.into_std(), 0.0);
        self.failures += 1;
        self.last_failure = Some(failure);
        self.phase = EngagementPhase::Waiting { until };
        until
    }

    pub(super) fn phase(&self) -> EngagementPhase {
        self.phase
    }

    /// Returns the number of failed attempts.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn last_failure(&self) -> Option<&ClusterFailure> {
        self.last_failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
