//! [`DeltaSink`]: where a reflector sends its deltas.

use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::ObjectKey;

use crate::Object;
use crate::delta::Delta;
use crate::source::BoxError;

/// Where a reflector sends its deltas: the store or queue of a program that runs a [`Reflector`](super::Reflector) itself.
///
/// Objects in deltas are of the right kind, transformed, and own their memory. A reflector sends [`Delta::Added`],
/// [`Delta::Updated`], [`Delta::Deleted`] with [`Deleted::Observed`](crate::Deleted::Observed), [`Delta::ReplacedAll`],
/// [`Delta::SyncAll`] and [`Delta::Bookmark`]. [`SinkError::Closed`] stops the reflector; any other error makes it relist.
pub trait DeltaSink: Send {
    /// Accepts a delta.
    fn push(&mut self, delta: Delta) -> Result<(), SinkError>;

    /// Makes all accepted deltas visible. The reflector calls it when no further event is ready.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Returns the stored state of an object. When a list contains an object in the same state, the reflector sends this one,
    /// so that no object is held or transformed twice.
    fn known(&self, key: &ObjectKey) -> Option<Object> {
        let _ = key;
        None
    }

    /// Reads what the sink needs of an object that will be stored, before the object is packed: reading it later unpacks it. The
    /// reflector does not call it for objects that it does not pack.
    fn prepare(&self, object: &Object) {
        let _ = object;
    }

    /// Returns a request to the reflector. An implementation that returns `Pending` wakes the task when there is a request.
    fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<SinkRequest> {
        let _ = context;
        Poll::Pending
    }
}

/// A request of a [`DeltaSink`] to its reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkRequest {
    /// Resync with this period from now on; zero for never.
    ResyncPeriod(Duration),
    /// Relist, without a resource version: the stored objects differ from a list of exactly their version.
    Repair {
        /// The version.
        version: String,
        /// The number of objects that only the list has.
        missing: usize,
        /// The number of objects that only the store has.
        extra: usize,
        /// The number of objects in another state.
        other: usize,
    },
    /// Close the watch and request it again at the version that it has reached. Without effect before the initial list is complete.
    Rewatch,
    /// Stop: the sink is closed.
    Stop,
}

/// The error of a [`DeltaSink`] that did not accept a delta.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The consumer was dropped. The reflector stops.
    #[error("the consumer of {name} was dropped")]
    Closed {
        /// The name of the sink.
        name: String,
    },
    /// The delta was not stored. The reflector relists.
    #[error("{reason}")]
    Rejected {
        /// Why.
        reason: String,
        /// The cause.
        source: Option<BoxError>,
    },
}

impl SinkError {
    /// Returns the error of a delta that was not stored.
    pub fn rejected(reason: impl Into<String>, source: Option<BoxError>) -> Self {
        SinkError::Rejected { reason: reason.into(), source }
    }
}
