//! [`ManagerError`]: why a manager stopped.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use evenkeel_cache::factory::SyncError;

use crate::controller::ControllerError;
use crate::error_chain::ErrorChain;

/// A boxed error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a manager stopped without a shutdown, or did not shut down in time.
///
/// The message is complete: it includes all causes. So [`source`](StdError::source) returns none of them, and printing the chain
/// repeats nothing. The causes are fields.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManagerError {
    /// Another process may be leader now. The elected tasks were dropped at once. The process should exit and be restarted.
    LeadershipLost {
        /// The error of the election.
        source: Option<BoxError>,
    },
    /// A task failed or panicked, so everything was stopped.
    Task {
        /// The name of the task.
        task: String,
        /// The error of the task.
        source: BoxError,
    },
    /// A controller could not start, its caches did not sync, or it did not shut down in time.
    Controller(ControllerError),
    /// An informer stopped before it had synced.
    Sync(SyncError),
    /// Informers did not sync in time.
    SyncTimeout {
        /// The limit that was exceeded.
        limit: Duration,
        /// The informers that have not synced, each with its last error.
        informers: Vec<String>,
    },
    /// The manager shut down, but tasks exceeded the grace period and were dropped.
    GraceExceeded {
        /// The grace period of all tasks together.
        grace: Duration,
        /// The names of the tasks.
        tasks: Vec<String>,
    },
}

impl fmt::Display for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManagerError::LeadershipLost { source: None } => f.write_str("leader election lost"),
            ManagerError::LeadershipLost { source: Some(source) } => {
                write!(f, "leader election lost: {}", ErrorChain(&**source))
            }
            ManagerError::Task { task, source } => write!(f, "the task {task} failed: {}", ErrorChain(&**source)),
            ManagerError::Controller(source) => write!(f, "{}", ErrorChain(source)),
            ManagerError::Sync(source) => write!(f, "{}", ErrorChain(source)),
            ManagerError::SyncTimeout { limit, informers } => {
                write!(f, "caches not synced within {limit:?}: {}", informers.join("; "))
            }
            ManagerError::GraceExceeded { grace, tasks } => {
                let tasks = tasks.join(", ");
                write!(f, "these tasks exceeded the grace period of {grace:?} and were dropped: {tasks}")
            }
        }
    }
}

impl StdError for ManagerError {}

impl From<ControllerError> for ManagerError {
    fn from(error: ControllerError) -> Self {
        ManagerError::Controller(error)
    }
}

impl From<SyncError> for ManagerError {
    fn from(error: SyncError) -> Self {
        ManagerError::Sync(error)
    }
}
