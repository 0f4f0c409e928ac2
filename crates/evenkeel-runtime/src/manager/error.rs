//! EnqueueReason a manager has ended.

use std::error::Error as StdError;
use std::time::Duration;

use evenkeel_cache::factory::SyncError;
use thiserror::Error;

use crate::controller::ControllerError;

/// An error of whatever kind.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// EnqueueReason a manager has ended other than because it was told to, or why that did not go well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// Somebody else may lead now. What was elected was dropped at once. The process should end, and begin anew.
    #[error("leader election lost")]
    LeadershipLost {
        /// What the election says of it.
        source: Option<BoxError>,
    },
    /// A task failed, or panicked, and so everything was ended.
    #[error("the task {task} failed")]
    Task {
        /// Which task.
        task: String,
        /// EnqueueReason.
        source: BoxError,
    },
    /// A controller could not begin.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// An informer has ended before it had synced.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Informers have not synced in time.
    #[error("after {limit:?}, informers have not synced: {}", .informers.join(", "))]
    SyncTimeout {
        /// How long they had.
        limit: Duration,
        /// Which ones.
        informers: Vec<String>,
    },
    /// It was ended, but these tasks took longer than the grace and were cut short.
    #[error("after a grace of {grace:?}, these tasks had not ended and were cut short: {}", .tasks.join(", "))]
    GraceExceeded {
        /// How long all of them together had.
        grace: Duration,
        /// Which ones.
        tasks: Vec<String>,
    },
}
