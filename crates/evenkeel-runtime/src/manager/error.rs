//! [`ManagerError`]: why a manager stopped.

use std::error::Error as StdError;
use std::time::Duration;

use evenkeel_cache::factory::SyncError;
use thiserror::Error;

use crate::controller::ControllerError;

/// A boxed error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a manager stopped without a shutdown, or did not shut down in time.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// Another process may be leader now. The elected tasks were dropped at once. The process should exit and be restarted.
    #[error("leader election lost")]
    LeadershipLost {
        /// The error of the election.
        source: Option<BoxError>,
    },
    /// A task failed or panicked, so everything was stopped.
    #[error("the task {task} failed")]
    Task {
        /// The name of the task.
        task: String,
        /// The error of the task.
        source: BoxError,
    },
    /// A controller could not start.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// An informer stopped before it had synced.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Informers did not sync in time.
    #[error("after {limit:?}, informers have not synced: {}", .informers.join(", "))]
    SyncTimeout {
        /// The limit that was exceeded.
        limit: Duration,
        /// The informers that have not synced.
        informers: Vec<String>,
    },
    /// The manager shut down, but tasks exceeded the grace period and were dropped.
    #[error("these tasks exceeded the grace period of {grace:?} and were dropped: {}", .tasks.join(", "))]
    GraceExceeded {
        /// The grace period of all tasks together.
        grace: Duration,
        /// The names of the tasks.
        tasks: Vec<String>,
    },
}
