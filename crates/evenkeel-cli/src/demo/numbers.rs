//! A snapshot of all metrics of the demo.

use evenkeel::cache::informer::InformerStatus;
use evenkeel::cache::informer::ReflectorPhase;
use evenkeel::queue::QueueStats;

/// A snapshot of all metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) revision: u64,
    /// Watches open on the server, of all clients.
    pub(super) watchers: usize,
    /// Requests of the controller, of the simulated cluster, and of the demo itself.
    pub(super) requests: [u64; 3],
    pub(super) foos: Informer,
    pub(super) deployments: Informer,
    pub(super) queue: QueueStats,
    /// Watches of the controller that were closed by a fault.
    pub(super) breaks: u64,
    /// Watch requests that were refused.
    pub(super) refusals: u64,
    /// Watches that could not resume (410).
    pub(super) expired: u64,
    /// Events that the controller recorded.
    pub(super) events: u64,
}

/// State of an informer.
#[derive(Clone, Debug, Default)]
pub(super) struct Informer {
    pub(super) doing: Activity,
    pub(super) objects: usize,
    /// Resource version of its store.
    pub(super) version: String,
    /// Number of relists.
    pub(super) relists: u64,
}

/// Activity of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    #[default]
    Nothing,
    Listing,
    Watching,
    /// Waiting for its backoff.
    Waiting,
}

impl Numbers {
    /// Returns the number of finished reconciles.
    pub(super) fn reconciles(&self) -> u64 {
        let open = self.queue.depth + self.queue.in_flight;
        self.queue.adds.saturating_sub(open as u64)
    }

    /// Returns the number of relists of both informers.
    pub(super) fn relists(&self) -> u64 {
        self.foos.relists + self.deployments.relists
    }
}

impl Informer {
    pub(super) fn of(status: &InformerStatus) -> Self {
        let doing = match status.reflector.phase {
            ReflectorPhase::Listing => Activity::Listing,
            ReflectorPhase::Watching => Activity::Watching,
            ReflectorPhase::Waiting { .. } => Activity::Waiting,
            _ => Activity::Nothing,
        };
        let version = status.store_resource_version.clone();
        Informer { doing, objects: status.objects, version, relists: status.reflector.syncs.saturating_sub(1) }
    }
}

impl Activity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Activity::Nothing => "idle",
            Activity::Listing => "listing",
            Activity::Watching => "watching",
            Activity::Waiting => "waiting",
        }
    }
}
