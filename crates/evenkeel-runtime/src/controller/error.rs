//! [`ControllerError`]: why a controller could not start, or did not shut down in time.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::informer::Stopped;
use thiserror::Error;

use crate::ring::RingError;

/// Why a controller could not start, did not shut down in time, or did not accept a source. Reconciles that fail do not end a controller.
///
/// The message is complete: it includes all causes.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Not all caches synced in time. No worker was started.
    #[error("controller {controller}: caches not synced within {limit:?}: {}", .waiting_for.join("; "))]
    SyncTimeout {
        /// The name of the controller.
        controller: String,
        /// The limit that was exceeded.
        limit: Duration,
        /// The informers that have not synced, each with its last error.
        waiting_for: Vec<String>,
    },
    /// An informer that the controller needs has stopped before the controller started.
    #[error("controller {controller}: cannot start: {stopped}")]
    InformerStopped {
        /// The name of the controller.
        controller: String,
        /// The informer.
        stopped: Stopped,
    },
    /// A shared informer was stopped while the controller ran. The controller would receive no more events, so it stopped too.
    #[error("controller {controller}: stopped because the informer of {kind} was stopped elsewhere")]
    InformerLost {
        /// The name of the controller.
        controller: String,
        /// The kind of the informer.
        kind: String,
    },
    /// The controller has ended, so the source was not added.
    #[error("controller {controller}: has ended; the source was not added")]
    Ended {
        /// The name of the controller.
        controller: String,
    },
    /// The source was removed, or the controller has ended, before the source had synced.
    #[error("controller {controller}: the source of {kind} was removed before it had synced")]
    SourceRemoved {
        /// The name of the controller.
        controller: String,
        /// The kind of the source.
        kind: String,
    },
    /// The configuration contradicts itself or cannot be parsed.
    #[error("controller {controller}: cannot be built: {problem}")]
    InvalidConfig {
        /// The name of the controller.
        controller: String,
        /// The contradiction.
        problem: String,
    },
    /// The replica is not in the ring any more that divides the controller, so it stopped.
    #[error("controller {controller}: stopped because it is not in ring {ring} any more: {error}")]
    RingLost {
        /// The name of the controller.
        controller: String,
        /// The name of the ring.
        ring: String,
        /// Why the ring ended.
        error: Arc<RingError>,
    },
    /// The controller stopped, but reconciles or handlers did not return within the grace period.
    #[error(
        "controller {controller}: stopped; {running} reconciles and {handlers} event handlers did not return within {grace:?}"
    )]
    GraceExceeded {
        /// The name of the controller.
        controller: String,
        /// The number of reconciles that were dropped.
        running: usize,
        /// The number of event handlers that were left behind: a predicate or a mapping function blocks.
        handlers: usize,
        /// The grace period.
        grace: Duration,
    },
}
