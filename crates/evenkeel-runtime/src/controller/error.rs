//! EnqueueReason a controller could not run, or did not end well.

use std::time::Duration;

use evenkeel_cache::informer::Stopped;
use thiserror::Error;

/// EnqueueReason a controller could not run, or did not end well. Reconciles that fail are no reason.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Not everything that the controller looks at was there in time. No worker has begun.
    #[error("controller {controller} gives up: after {limit:?} it still waits for {}", .waiting_for.join(", "))]
    SyncTimeout {
        /// The controller.
        controller: String,
        /// How long it was prepared to wait.
        limit: Duration,
        /// What it waited for, with the last error that is known.
        waiting_for: Vec<String>,
    },
    /// An informer that it needs has ended.
    #[error("controller {controller} cannot begin")]
    InformerStopped {
        /// The controller.
        controller: String,
        /// Which informer.
        source: Stopped,
    },
    /// An informer that others use too was ended by somebody else while the controller ran. It would not hear of anything any
    /// more, so it has ended as well.
    #[error("controller {controller} has ended, because the informer of {kind} has")]
    InformerLost {
        /// The controller.
        controller: String,
        /// What the informer was about.
        kind: String,
    },
    /// What it was told contradicts itself.
    #[error("controller {controller} cannot be built: {problem}")]
    InvalidConfig {
        /// The controller.
        controller: String,
        /// What is wrong.
        problem: String,
    },
    /// It has ended, but reconciles had to be cut short because they took longer than the grace.
    #[error("controller {controller} has ended, but {running} reconciles had not after {grace:?} and were cut short")]
    GraceExceeded {
        /// The controller.
        controller: String,
        /// How many were cut short.
        running: usize,
        /// How long they had.
        grace: Duration,
    },
}
