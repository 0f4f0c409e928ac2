//! What went wrong, and what the reflector does about it: [`ReflectorFailure`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceInfo, StreamError};

use super::sink::SinkError;
use super::status::ReflectorPhase;
use crate::source::{BoxError, SourceError};

/// Something went wrong, and this is what happens next. Handlers hear of every failure, and of each one once, before the
/// reflector acts on it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReflectorFailure {
    /// Which reflector.
    pub reflector: Arc<str>,
    /// Of what it keeps a copy.
    pub resource: Arc<ResourceInfo>,
    /// What it was doing.
    pub phase: ReflectorPhase,
    /// What went wrong.
    pub error: ReflectorError,
    /// What it does next.
    pub next: Recovery,
    /// How many failures there have been in a row, with this one, that made the reflector wait; 0 if there was none.
    pub attempt: u32,
}

/// What a reflector does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Nothing special: the failure is about one object, and the others go on.
    Continue,
    /// Asks for all objects again, after this time.
    Relist {
        /// How long it waits.
        after: Duration,
    },
    /// Watches again from where it is, after this time.
    Rewatch {
        /// How long it waits.
        after: Duration,
    },
}

/// What can go wrong with a reflector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// There is no list.
    #[error("failed to list: {0}")]
    List(#[source] SourceError),
    /// There is no watch.
    #[error("failed to watch: {0}")]
    Watch(#[source] SourceError),
    /// The watch was there, and has ended with an error.
    #[error("the watch ended: {0}")]
    Stream(#[source] SourceError),
    /// The watch ended at once and said nothing.
    #[error("very short watch: it ended within a second, and no event came")]
    VeryShortWatch,
    /// The watch ended at once, not for the first time, so that the next one waits.
    #[error("the watch ended within a second again")]
    HastyWatch,
    /// A watch that was to begin with all objects ended before it had said that these were all.
    #[error("the watch ended before all objects had come")]
    EndedBeforeSync,
    /// Nothing was heard for so long that the watch must be dead.
    #[error("nothing was heard of the watch for {silence:?}")]
    Silent {
        /// For how long.
        silence: Duration,
    },
    /// The server did not end the watch when it was to.
    #[error("the watch was not ended by the server after {timeout:?}, as it was asked to")]
    Overdue {
        /// When it was to end.
        timeout: Duration,
    },
    /// The pages of a list lead back to where they began.
    #[error("the list does not come to an end: a page is followed by itself")]
    EndlessList,
    /// The sink did not accept a delta.
    #[error("failed to write: {0}")]
    Sink(#[source] SinkError),
    /// The transform failed.
    #[error("failed to transform {key}: {source}")]
    Transform {
        /// Which object.
        key: ObjectKey,
        /// What it said.
        source: BoxError,
    },
    /// The transform made another object of it.
    #[error("the transform changed the key of {key} to {became}")]
    TransformChangedKey {
        /// Which object.
        key: ObjectKey,
        /// What its key was after the transform.
        became: ObjectKey,
    },
    /// An object says that it is of another kind.
    #[error("expected {expected}, but {key} is {found}")]
    OtherKind {
        /// Which object.
        key: ObjectKey,
        /// API version and kind that were asked for.
        expected: String,
        /// API version and kind that it states.
        found: String,
    },
    /// One object could not be read. It stays as it was last known.
    #[error("an object cannot be read: {0}")]
    Unreadable(#[source] StreamError),
    /// An object could not be read some time ago. It may have been deleted, so all objects are asked for again.
    #[error("an object could not be read, and may be gone")]
    PerhapsGone,
    /// What was streamed is not what a list of the same version has.
    #[error(
        "the streamed objects are not those of the list at version {version}: {missing} missing, {extra} too many, \
         {other} in another state"
    )]
    Inconsistent {
        /// The version.
        version: String,
        /// How many the list has and the stream had not.
        missing: usize,
        /// How many the stream had and the list has not.
        extra: usize,
        /// How many are in another state.
        other: usize,
    },
}

impl ReflectorError {
    /// What the source said, if this is its error.
    pub fn source_error(&self) -> Option<&SourceError> {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) | ReflectorError::Stream(error) => Some(error),
            _ => None,
        }
    }

    /// The version that was asked for is too old. This happens, and asking for all objects again helps.
    pub fn is_expired(&self) -> bool {
        self.source_error().is_some_and(SourceError::is_expired)
    }

    /// Whether this is about one object only, and the others are not affected.
    pub fn is_about_one_object(&self) -> bool {
        matches!(
            self,
            ReflectorError::Transform { .. }
                | ReflectorError::TransformChangedKey { .. }
                | ReflectorError::OtherKind { .. }
                | ReflectorError::Unreadable(_)
        )
    }
}

impl fmt::Display for ReflectorFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, kind) = (self.resource.api_version(), self.resource.kind());
        write!(f, "{} ({version} {kind}): {}; {}", self.reflector, self.error, self.next)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, after) = match self {
            Recovery::Continue => return f.write_str("the others go on"),
            Recovery::Relist { after } => ("listing again", after),
            Recovery::Rewatch { after } => ("watching again", after),
        };
        if after.is_zero() { write!(f, "{what} now") } else { write!(f, "{what} in {after:.1?}") }
    }
}

/// Hears of failures. Called by the reflector's own task, which waits for it: it must not block.
pub type ErrorHandler = Arc<dyn Fn(&ReflectorFailure) + Send + Sync>;

/// What a reflector does with a failure if no handler was set: it logs it, with `tracing`, as loudly as it deserves.
///
/// A version that is too old and a connection that was lost are part of life and only seen when debugging; an object that
/// cannot be taken is a warning; whatever else keeps the copy from being true is an error, or a warning the first time.
pub fn log_failure(failure: &ReflectorFailure) {
    let ReflectorFailure { reflector, resource, error, next, attempt, .. } = failure;
    let (reflector, kind) = (&**reflector, resource.kind());
    match loudness(error) {
        Loudness::Trace => tracing::trace!(reflector, kind, %error, %next, "the watch ended"),
        Loudness::Debug => tracing::debug!(reflector, kind, %error, %next, attempt, "the watch ended"),
        Loudness::Warn => tracing::warn!(reflector, kind, %error, %next, attempt, "an object or a watch was lost"),
        Loudness::Error => tracing::error!(reflector, kind, %error, %next, attempt, "failed to list or watch"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loudness {
    Trace,
    Debug,
    Warn,
    Error,
}

fn loudness(error: &ReflectorError) -> Loudness {
    match error {
        expired if expired.is_expired() => Loudness::Debug,
        ReflectorError::Stream(SourceError::Connection(_)) => Loudness::Trace,
        ReflectorError::Watch(SourceError::Connection(_))
        | ReflectorError::Stream(SourceError::Garbled(StreamError::Truncated { .. }))
        | ReflectorError::EndedBeforeSync
        | ReflectorError::VeryShortWatch
        | ReflectorError::HastyWatch => Loudness::Debug,
        one if one.is_about_one_object() => Loudness::Warn,
        ReflectorError::Silent { .. } | ReflectorError::Overdue { .. } | ReflectorError::PerhapsGone => Loudness::Warn,
        _ => Loudness::Error,
    }
}

#[cfg(test)]
mod tests;
