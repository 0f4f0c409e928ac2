//! [`EngagementRecord`]: what the status of a cluster shows of one controller.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_cache::InformerFactory;
use evenkeel_core::ObjectKey;
use evenkeel_queue::{WeakQueue, WorkQueue};
use tokio::time::Instant;

use super::engagement_state::EngagementState;
use super::failure::ClusterFailure;
use super::status::{CacheStatus, EngagementStatus};

/// The state of a controller in one cluster, and the parts of its current attempt.
#[derive(Debug)]
pub(super) struct EngagementRecord {
    state: Mutex<EngagementState>,
    parts: Mutex<Option<AttemptParts>>,
}

/// The parts of an attempt.
#[derive(Clone, Debug)]
struct AttemptParts {
    queue: WeakQueue<ObjectKey>,
    informers: InformerFactory,
}

impl Default for EngagementRecord {
    fn default() -> Self {
        EngagementRecord { state: Mutex::new(EngagementState::new()), parts: Mutex::default() }
    }
}

impl EngagementRecord {
    fn state(&self) -> MutexGuard<'_, EngagementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self) -> MutexGuard<'_, Option<AttemptParts>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt starts with these parts.
    pub(super) fn start(&self, queue: &WorkQueue<ObjectKey>, informers: &InformerFactory) {
        self.state().start();
        *self.parts() = Some(AttemptParts { queue: queue.downgrade(), informers: informers.clone() });
    }

    /// The caches have synced.
    pub(super) fn synced(&self) {
        self.state().synced();
    }

    /// The attempt failed. Returns when the next one starts.
    pub(super) fn failed(&self, failure: ClusterFailure) -> Instant {
        // Dropped after the lock was released: it may be the last handle of the informers.
        let _parts = self.parts().take();
        self.state().failed(failure)
    }

    pub(super) fn status(&self) -> EngagementStatus {
        let parts = self.parts().clone();
        let queue = parts.as_ref().and_then(|parts| parts.queue.upgrade()).map(|queue| queue.stats());
        let informers = parts.map(|parts| parts.informers.statuses()).unwrap_or_default();
        let caches = informers
            .into_iter()
            .map(|informer| (informer.name, CacheStatus { objects: informer.objects, is_synced: informer.has_synced }))
            .collect();
        let state = self.state();
        EngagementStatus {
            phase: state.phase(),
            failures: state.failures(),
            last_failure: state.last_failure().cloned(),
            queue,
            caches,
        }
    }
}
