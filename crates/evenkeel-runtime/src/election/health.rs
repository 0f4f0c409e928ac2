//! [`ElectionHealth`]: reports a leader that neither renews nor stops.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::elector::ElectorShared;

/// A health check that fails while this process leads on a lease that expired long ago.
///
/// This happens only if the runtime is stuck, or work that never yields holds its thread. A liveness probe on this
/// check gets such a process restarted.
///
/// Create it first, add it to the health endpoint, and attach it to the elector
/// ([`LeaderElector::health`](super::LeaderElector::health)). Cheap to clone; clones are one check.
#[derive(Clone, Debug)]
pub struct ElectionHealth {
    tolerance: Duration,
    elector: Arc<Mutex<Option<Arc<ElectorShared>>>>,
}

/// The lease was neither renewed nor given up in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {lease}")]
pub struct NotRenewed {
    /// The lease, `namespace/name`.
    pub lease: String,
    /// The time since the last successful renewal was sent.
    pub age: Duration,
}

impl ElectionHealth {
    /// Returns a check that tolerates this time beyond the lease duration.
    pub fn new(tolerance: Duration) -> Self {
        ElectionHealth { tolerance, elector: Arc::default() }
    }

    /// Returns the name of the check in health endpoints.
    pub fn name(&self) -> &'static str {
        "leaderElection"
    }

    /// Runs the check. Succeeds while no elector is attached.
    pub fn check(&self) -> Result<(), NotRenewed> {
        match &*self.elector.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(elector) => elector.check(self.tolerance),
            None => Ok(()),
        }
    }

    pub(super) fn attach(&self, elector: &Arc<ElectorShared>) {
        *self.elector.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(elector));
    }
}
