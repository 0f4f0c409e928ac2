//! [`ElectionHealth`]: a leader that does not renew and does not stop either is ill.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::elector::Shared;

/// A health check: well, unless this process leads on a lease that it should have given up long ago.
///
/// That does not happen while the process works. It happens if its runtime is stuck, or work that does not end holds its thread; a
/// liveness probe that asks this gets such a process restarted.
///
/// Make it first, give it to the health endpoint, and to the elector when there is one
/// ([`LeaderElector::health`](super::LeaderElector::health)). Cheap to clone; clones are one check.
#[derive(Clone, Debug)]
pub struct ElectionHealth {
    tolerance: Duration,
    elector: Arc<Mutex<Option<Arc<Shared>>>>,
}

/// The lease should have been given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {lease}")]
pub struct NotRenewed {
    /// Which lease.
    pub lease: String,
    /// How long ago the last renewal that succeeded was sent.
    pub age: Duration,
}

impl ElectionHealth {
    /// A check that tolerates so much time after the lease duration.
    pub fn new(tolerance: Duration) -> Self {
        ElectionHealth { tolerance, elector: Arc::default() }
    }

    /// What the check is called in health endpoints.
    pub fn name(&self) -> &'static str {
        "leaderElection"
    }

    /// Well, or not. Without an elector: well.
    pub fn check(&self) -> Result<(), NotRenewed> {
        match &*self.elector.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(elector) => elector.check(self.tolerance),
            None => Ok(()),
        }
    }

    pub(super) fn attach(&self, elector: &Arc<Shared>) {
        *self.elector.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(elector));
    }
}
