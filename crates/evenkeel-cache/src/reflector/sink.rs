//! What a reflector writes to: [`ReflectorStore`].

use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Object;
use crate::source::BoxError;

/// What a reflector writes to.
///
/// Objects have been looked at before they come here: they are of the right kind, transformed, and in memory of their own.
/// An error makes the reflector list again.
pub trait ReflectorStore: Send {
    /// A watch says that the object has come.
    fn add(&mut self, object: Object) -> Result<(), StoreError>;

    /// A watch says that the object has changed.
    fn update(&mut self, object: Object) -> Result<(), StoreError>;

    /// A watch says that the object is gone; this is its last state.
    fn delete(&mut self, object: Object) -> Result<(), StoreError>;

    /// A list has these objects and no others.
    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion) -> Result<(), StoreError>;

    /// The resync period is over.
    fn resync(&mut self, now: Instant) -> Result<(), StoreError>;

    /// Whether the resync period is another one than before, and which. Who is asked has the task woken when it changes.
    fn poll_resync_period(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        let _ = context;
        Poll::Pending
    }

    /// Nothing has happened up to this version.
    fn bookmark(&mut self, version: &ResourceVersion) {
        let _ = version;
    }

    /// Nothing more is at hand: whatever was written should now be seen.
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What is known of an object. A list that brings an object in the same state is answered with this one, so that
    /// nothing is held twice and nothing is transformed twice.
    fn known(&self, key: &ObjectKey) -> Option<Object> {
        let _ = key;
        None
    }
}

/// A write failed; the reflector lists again.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct StoreError {
    problem: String,
    #[source]
    source: Option<BoxError>,
}

impl StoreError {
    /// A write failed for this reason.
    pub fn new(problem: impl Into<String>, source: Option<BoxError>) -> Self {
        StoreError { problem: problem.into(), source }
    }
}
