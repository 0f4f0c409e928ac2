//! Where objects come from: [`ListerWatcher`].
//!
//! A source is asked for two things, a list and a watch, and says what became of it in its own words: [`SourceError`]. It
//! knows which objects it is about (which namespace, which selectors); the reflector knows from which version on.

#[cfg(feature = "client")]
mod client;

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{ResourceVersion, Status, StreamError, Untyped, WatchEvent};

use crate::Object;

#[cfg(feature = "client")]
pub use client::ApiSource;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lists and watches the objects of one kind.
///
/// A future, a list or a watch that is dropped must end the request behind it: that is how the reflector cancels. A list is
/// waited for as long as it takes, so one that may hang must have an end of its own, as those of a client have. A watch that
/// hangs is noticed.
pub trait ListerWatcher: Send + Sync + 'static {
    /// Asks for the objects that are there, or a page of them.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>>;

    /// Asks for what happens.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>>;

    /// Whether a watch can begin with all objects that are there (WatchList). A source that says yes and then refuses such
    /// a watch is listed instead.
    fn supports_watch_list(&self) -> bool {
        true
    }

    /// Whether objects are asked for as their metadata only, so that they may say that they are a `PartialObjectMetadata`.
    fn is_metadata_only(&self) -> bool {
        false
    }
}

/// What is asked of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The version that the list must not be older than: `""` for the newest there is, `"0"` for whatever is at hand.
    pub resource_version: String,
    /// The list must be of just this [`resource_version`](Self::resource_version), not of a newer one.
    pub is_exact: bool,
    /// At most this many; 0 for all.
    pub limit: u32,
    /// Where the page begins; empty for the first.
    pub continue_token: String,
}

/// What is asked of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// What happened after this version is asked for.
    pub resource_version: String,
    /// When the server should end the watch by itself.
    pub timeout: Duration,
    /// Begin with all objects that are there, then a bookmark that says so. Not older than
    /// [`resource_version`](Self::resource_version), or the newest if that is empty.
    pub initial_events: bool,
}

impl ListRequest {
    /// A list that is not older than this version.
    pub fn not_older_than(version: impl Into<String>) -> Self {
        ListRequest { resource_version: version.into(), ..ListRequest::default() }
    }
}

impl WatchRequest {
    /// A watch from this version on.
    pub fn from_version(version: impl Into<String>, timeout: Duration) -> Self {
        WatchRequest { resource_version: version.into(), timeout, initial_events: false }
    }
}

/// A list as it comes in, item by item.
pub trait ListItems: Send {
    /// The next part of the list. After an error or the end it is not asked again.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>>;
}

/// A part of a list.
#[derive(Debug)]
pub enum ListPart {
    /// An object.
    Object(Object),
    /// Something that should have been an object. The others still come.
    Unreadable(StreamError),
    /// That was all.
    End {
        /// The version of the list.
        resource_version: ResourceVersion,
        /// Where the next page begins; empty if there is none.
        continue_token: String,
    },
}

/// A watch as it comes in, event by event.
pub trait WatchEvents: Send {
    /// The next event; `None` when the server has ended the watch in an orderly way.
    ///
    /// An error of which [`is_about_one_object`](SourceError::is_about_one_object) is true leaves the watch as it is; after
    /// any other it is not asked again.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<Untyped>, SourceError>>>;
}

/// Why there is no list, no watch, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server refused, or failed, and says why.
    #[error("{0}")]
    Status(Box<Status>),
    /// Nobody listens at the server's address, or there is none.
    #[error("{0}")]
    ConnectionRefused(#[source] BoxError),
    /// The connection was lost, or nothing came in time.
    #[error("{0}")]
    Connection(#[source] BoxError),
    /// One object, or one event, made no sense. The others still come.
    #[error(transparent)]
    Unreadable(StreamError),
    /// What comes makes no sense any more.
    #[error(transparent)]
    Garbled(StreamError),
    /// Anything else.
    #[error("{0}")]
    Other(#[source] BoxError),
}

/// An error of somebody else's.
pub type BoxError = Box<dyn StdError + Send + Sync>;

impl SourceError {
    /// What the server said, if it said something.
    pub fn status(&self) -> Option<&Status> {
        match self {
            SourceError::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether this is about one object only, and others still come.
    pub fn is_about_one_object(&self) -> bool {
        matches!(self, SourceError::Unreadable(_))
    }

    /// The version that was asked for is too old.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }
}

/// Whether an object could not be read because of the form that it came in.
pub(crate) fn is_about_protobuf(error: &StreamError) -> bool {
    matches!(error, StreamError::Object { source, .. } if source.is_about_protobuf())
}

impl From<Status> for SourceError {
    fn from(status: Status) -> Self {
        SourceError::Status(Box::new(status))
    }
}
