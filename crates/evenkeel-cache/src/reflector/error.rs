//! [`ReflectorFailure`]: an error of a reflector, and its recovery.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::status::qualified;
use evenkeel_core::{ObjectKey, ResourceInfo, Status, StreamError};

use super::sink::SinkError;
use super::status::ReflectorPhase;
use crate::source::{BoxError, SourceError};

/// An error of a reflector, and its recovery. The error handler receives every failure once, before the reflector acts on it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReflectorFailure {
    /// The name of the reflector.
    pub reflector: Arc<str>,
    /// The resource that it lists and watches.
    pub resource: Arc<ResourceInfo>,
    /// The phase in which the error occurred.
    pub phase: ReflectorPhase,
    /// The error.
    pub error: ReflectorError,
    /// What the reflector does next.
    pub next: Recovery,
    /// The number of consecutive failures that caused a backoff, this one included; 0 if there was none.
    pub attempt: u32,
}

/// What a reflector does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Continues: the failure is about one object.
    Continue,
    /// Relists after this time.
    Relist {
        /// The backoff.
        after: Duration,
    },
    /// Watches again from the same resource version, after this time.
    Rewatch {
        /// The backoff.
        after: Duration,
    },
}

/// The errors of a reflector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed.
    #[error("failed to list: {0}")]
    List(#[source] SourceError),
    /// A watch request failed.
    #[error("failed to watch: {0}")]
    Watch(#[source] SourceError),
    /// An open watch failed.
    #[error("the watch ended: {0}")]
    Stream(#[source] SourceError),
    /// The watch ended within a second without an event.
    #[error("very short watch: it ended within a second without an event")]
    VeryShortWatch,
    /// The watch ended within a second, not for the first time, so that the next one waits.
    #[error("the watch ended within a second again")]
    HastyWatch,
    /// A WatchList ended before the bookmark that ends the initial events.
    #[error("the watch ended before the initial list was complete")]
    EndedBeforeSync,
    /// The watch was silent for so long that it counts as dead.
    #[error("the watch was silent for {silence:?}")]
    Silent {
        /// The silence.
        silence: Duration,
    },
    /// The server did not close the watch after its timeout.
    #[error("the server did not close the watch after its timeout of {timeout:?}")]
    Overdue {
        /// The timeout.
        timeout: Duration,
    },
    /// A continue token of a list repeats.
    #[error("endless list: a continue token repeats")]
    EndlessList,
    /// Page after page of a list has no objects.
    #[error("endless list: {pages} pages have no objects")]
    EmptyPages {
        /// The number of pages without objects.
        pages: u32,
    },
    /// A list has more objects or bytes than allowed, over all its pages or initial events.
    #[error(
        "the list exceeds {max_objects} objects or {max_bytes} bytes ({objects} objects, {bytes} bytes so far); select fewer \
         objects, or raise `max_list_objects` and `max_list_bytes`"
    )]
    ListTooLarge {
        /// The number of objects so far.
        objects: usize,
        /// The bytes of their payloads, as they are stored.
        bytes: usize,
        /// The maximal number of objects.
        max_objects: usize,
        /// The maximal bytes.
        max_bytes: usize,
    },
    /// A WatchList sent neither a new object nor the bookmark that ends the initial events for so long that the reflector lists
    /// instead.
    #[error(
        "the WatchList made no progress for {waited:?}: no new object, and no bookmark that ends the initial events"
    )]
    NoBookmark {
        /// The time without progress.
        waited: Duration,
    },
    /// The sink did not accept a delta.
    #[error("failed to write: {0}")]
    Sink(#[source] SinkError),
    /// The transform failed.
    #[error("failed to transform {key}: {source}")]
    Transform {
        /// The key of the object.
        key: ObjectKey,
        /// The error of the transform.
        source: BoxError,
    },
    /// The transform panicked.
    #[error("the transform panicked on {key}: {message}")]
    TransformPanicked {
        /// The key of the object.
        key: ObjectKey,
        /// The message of the panic.
        message: String,
    },
    /// The transform changed the key of the object.
    #[error("the transform changed the key of {key} to {became}")]
    TransformChangedKey {
        /// The key of the object.
        key: ObjectKey,
        /// The key after the transform.
        became: ObjectKey,
    },
    /// The transform changed the place or the resource version of an object of an informer whose places change.
    #[error(
        "the transform changed the place or the resource version of {key}; informers with a `ShardScope` need uid, owners and \
         resource version"
    )]
    TransformChangedPlace {
        /// The key of the object.
        key: ObjectKey,
    },
    /// An object is of another kind.
    #[error("expected {expected}, but {key} is {found}")]
    OtherKind {
        /// The key of the object.
        key: ObjectKey,
        /// The API version and kind that were requested.
        expected: String,
        /// The API version and kind of the object.
        found: String,
    },
    /// One object is unreadable. It stays as it was last stored. If its name is unreadable too, the list or watch fails.
    #[error("unreadable object: {0}")]
    Unreadable(#[source] StreamError),
    /// An object was unreadable some time ago. It may have been deleted, so the reflector relists.
    #[error("an object was unreadable and may have been deleted")]
    PerhapsDeleted,
    /// The stored objects, or the initial events of a WatchList, differ from a list of the same version.
    #[error(
        "objects differ from the list at version {version}: {missing} missing, {extra} extra, {other} in another state"
    )]
    Inconsistent {
        /// The version.
        version: String,
        /// The number of objects that only the list has.
        missing: usize,
        /// The number of objects that the list does not have.
        extra: usize,
        /// The number of objects in another state.
        other: usize,
    },
}

impl ReflectorError {
    /// Returns the error of the source, if this is one.
    pub fn source_error(&self) -> Option<&SourceError> {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) | ReflectorError::Stream(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the error with its remedy, if there is one.
    pub(super) fn about<'a>(&'a self, resource: &'a ResourceInfo) -> ErrorAbout<'a> {
        ErrorAbout { error: self, resource }
    }

    /// Returns whether the requested version has expired. A relist helps.
    pub fn is_expired(&self) -> bool {
        self.source_error().is_some_and(SourceError::is_expired)
    }

    /// Returns whether the error is about one object, and others are not affected.
    pub(crate) fn is_about_one_object(&self) -> bool {
        matches!(
            self,
            ReflectorError::Transform { .. }
                | ReflectorError::TransformPanicked { .. }
                | ReflectorError::TransformChangedKey { .. }
                | ReflectorError::OtherKind { .. }
                | ReflectorError::Unreadable(_)
        )
    }
}

impl fmt::Display for ReflectorFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, kind) = (self.resource.api_version(), self.resource.kind());
        write!(f, "{} ({version} {kind}): {}; {}", self.reflector, self.error.about(&self.resource), self.next)
    }
}

/// An error with its remedy, if it is that the server does not serve the resource.
pub(super) struct ErrorAbout<'a> {
    error: &'a ReflectorError,
    resource: &'a ResourceInfo,
}

impl fmt::Display for ErrorAbout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorAbout { error, resource } = self;
        write!(f, "{error}")?;
        let status = error.source_error().and_then(SourceError::status);
        if !status.is_some_and(Status::is_not_found) {
            return Ok(());
        }
        let (version, name) = (resource.version(), qualified(resource.group(), resource.plural()));
        // Groups with a dot may be those of CustomResourceDefinitions.
        match resource.group().contains('.') {
            true => {
                write!(f, ": {name} is not served: install the CustomResourceDefinition {name} with version {version}")
            }
            false => write!(f, ": {name} is not served in version {version}"),
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, after) = match self {
            Recovery::Continue => return f.write_str("continuing with other objects"),
            Recovery::Relist { after } => ("relisting", after),
            Recovery::Rewatch { after } => ("watching again", after),
        };
        if after.is_zero() { write!(f, "{what} now") } else { write!(f, "{what} in {after:.1?}") }
    }
}

/// A handler of failures. The reflector's task calls it: it must not block.
pub type ErrorHandler = Arc<dyn Fn(&ReflectorFailure) + Send + Sync>;

/// Logs a failure with `tracing`: the default error handler.
///
/// Expired versions and lost connections are normal and logged at debug or trace; a rejected object or a dead watch is a warning;
/// any other error that keeps the store from being up to date is an error.
pub fn log_failure(failure: &ReflectorFailure) {
    let ReflectorFailure { reflector, resource, error, next, attempt, .. } = failure;
    let (reflector, kind, level) = (&**reflector, resource.kind(), log_level(error));
    let error = error.about(resource);
    match level {
        LogLevel::Trace => tracing::trace!(reflector, kind, %error, %next, "watch ended"),
        LogLevel::Debug => tracing::debug!(reflector, kind, %error, %next, attempt, "the watch ended"),
        LogLevel::Warn => tracing::warn!(reflector, kind, %error, %next, attempt, "object or watch failed"),
        LogLevel::Error => tracing::error!(reflector, kind, %error, %next, attempt, "failed to list or watch"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogLevel {
    Trace,
    Debug,
    Warn,
    Error,
}

fn log_level(error: &ReflectorError) -> LogLevel {
    match error {
        expired if expired.is_expired() => LogLevel::Debug,
        ReflectorError::Stream(SourceError::Connection(_)) => LogLevel::Trace,
        ReflectorError::Watch(SourceError::Connection(_))
        | ReflectorError::Stream(SourceError::Garbled(StreamError::Truncated { .. }))
        | ReflectorError::EndedBeforeSync
        | ReflectorError::VeryShortWatch
        | ReflectorError::HastyWatch => LogLevel::Debug,
        one if one.is_about_one_object() => LogLevel::Warn,
        ReflectorError::Silent { .. }
        | ReflectorError::Overdue { .. }
        | ReflectorError::PerhapsDeleted
        | ReflectorError::NoBookmark { .. } => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests;
