//! How everything is doing, at one moment.

use evenkeel::cache::informer::InformerStatus;
use evenkeel::cache::reflector::ReflectorPhase;
use evenkeel::queue::QueueStats;

/// How everything is doing, at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) revision: u64,
    /// Watches that the server has open, whoever looks.
    pub(super) watchers: usize,
    /// Of the controller, of the stand-in, and of those who write and judge.
    pub(super) requests: [u64; 3],
    pub(super) foos: Informer,
    pub(super) deployments: Informer,
    pub(super) queue: QueueStats,
    /// Watches of the controller that broke.
    pub(super) breaks: u64,
    /// Watches that it could not have.
    pub(super) refusals: u64,
    /// Watches that could not go on from where they were.
    pub(super) expired: u64,
    /// Events that it has recorded.
    pub(super) events: u64,
}

/// How an informer is doing.
#[derive(Clone, Debug, Default)]
pub(super) struct Informer {
    pub(super) doing: Doing,
    pub(super) objects: usize,
    /// The version that its store has reached.
    pub(super) version: String,
    /// How many times all objects were asked for again.
    pub(super) relists: u64,
}

/// What an informer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doing {
    #[default]
    Nothing,
    Listing,
    Watching,
    /// It waits before it tries again.
    Waiting,
}

impl Numbers {
    /// How many times a worker has finished a Foo.
    pub(super) fn reconciles(&self) -> u64 {
        let open = self.queue.depth + self.queue.in_flight;
        self.queue.adds.saturating_sub(open as u64)
    }

    /// How many times all objects were asked for again.
    pub(super) fn relists(&self) -> u64 {
        self.foos.relists + self.deployments.relists
    }
}

impl Informer {
    pub(super) fn of(status: &InformerStatus) -> Self {
        let doing = match status.reflector.phase {
            ReflectorPhase::Listing => Doing::Listing,
            ReflectorPhase::Watching => Doing::Watching,
            ReflectorPhase::Waiting { .. } => Doing::Waiting,
            _ => Doing::Nothing,
        };
        let version = status.store_resource_version.clone();
        Informer { doing, objects: status.objects, version, relists: status.reflector.syncs.saturating_sub(1) }
    }
}

impl Doing {
    pub(super) fn word(self) -> &'static str {
        match self {
            Doing::Nothing => "idle",
            Doing::Listing => "listing",
            Doing::Watching => "watching",
            Doing::Waiting => "waiting",
        }
    }
}
