//! [`ListerWatcher`]: the source of objects.
//!
//! A source lists and watches, and reports [`SourceError`]s. It determines the objects (namespace, selectors); the reflector
//! determines the resource version.

#[cfg(feature = "client")]
mod client;

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::shard::ShardSelector;
use evenkeel_core::{ResourceVersion, Status, StreamError, Untyped, WatchEvent};

use crate::Object;

#[cfg(feature = "client")]
pub use client::ApiSource;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lists and watches the objects of one kind.
///
/// Dropping a future, a list or a watch must cancel its request. The reflector waits for a list without a timeout, so the source
/// needs one, as clients have. The reflector detects a watch that hangs.
pub trait ListerWatcher: Send + Sync + 'static {
    /// Lists the objects, or a page of them.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>>;

    /// Watches the objects.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>>;

    /// Returns whether the source supports WatchList. If it then refuses one, the reflector lists instead.
    fn supports_watch_list(&self) -> bool {
        true
    }

    /// Returns whether only metadata is requested, so that objects may be `PartialObjectMetadata`.
    fn is_metadata_only(&self) -> bool {
        false
    }
}

/// The parameters of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The oldest acceptable version: `""` for the newest, `"0"` for any version that the server has in its cache.
    pub resource_version: String,
    /// The list must be of exactly this [`resource_version`](Self::resource_version).
    pub is_exact: bool,
    /// At most this many; 0 for all.
    pub limit: u32,
    /// The continue token; empty for the first page.
    pub continue_token: String,
    /// Only objects of these places are needed. The reflector drops others, so a source may ignore it. All pages of a list have the
    /// same.
    pub shard_selector: Option<ShardSelector>,
}

/// The parameters of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The version after which events are sent.
    pub resource_version: String,
    /// When the server closes the watch.
    pub timeout: Duration,
    /// Request a WatchList: send all objects first, then a bookmark that ends them. Not older than
    /// [`resource_version`](Self::resource_version), or the newest if that is empty.
    pub initial_events: bool,
    /// Only objects of these places are needed. The reflector drops others, so a source may ignore it.
    pub shard_selector: Option<ShardSelector>,
}

impl ListRequest {
    /// Returns the parameters of a list that is not older than this version.
    pub fn not_older_than(version: impl Into<String>) -> Self {
        ListRequest { resource_version: version.into(), ..ListRequest::default() }
    }
}

impl WatchRequest {
    /// Returns the parameters of a watch after this version.
    pub fn from_version(version: impl Into<String>, timeout: Duration) -> Self {
        WatchRequest { resource_version: version.into(), timeout, initial_events: false, shard_selector: None }
    }
}

/// A list in progress, item by item.
pub trait ListItems: Send {
    /// Returns the next part of the list. Not called again after an error or the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>>;

    /// Returns the shard selector that the list tells after its [end](ListPart::End), if it tells one.
    fn shard_selector(&self) -> Option<&str> {
        None
    }
}

/// A part of a list.
#[derive(Debug)]
pub enum ListPart {
    /// An object.
    Object(Object),
    /// An unreadable object. Others follow.
    Unreadable(StreamError),
    /// The end of the list or page.
    End {
        /// The version of the list.
        resource_version: ResourceVersion,
        /// The continue token of the next page; empty if there is none.
        continue_token: String,
    },
}

/// A watch in progress, event by event.
pub trait WatchEvents: Send {
    /// Returns the next event; `None` when the server closed the watch.
    ///
    /// [`SourceError::Unreadable`] leaves the watch open. Not called again after any other error.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<Untyped>, SourceError>>>;
}

/// The error of a list or watch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server returned a `Status`.
    #[error("{0}")]
    Status(Box<Status>),
    /// The connection was refused, or there is no address.
    #[error("{0}")]
    ConnectionRefused(#[source] BoxError),
    /// The connection was lost, or timed out.
    #[error("{0}")]
    Connection(#[source] BoxError),
    /// One object or event is unreadable. Others follow.
    #[error(transparent)]
    Unreadable(StreamError),
    /// The stream is unreadable from here on.
    #[error(transparent)]
    Garbled(StreamError),
    /// Anything else.
    #[error("{0}")]
    Other(#[source] BoxError),
}

/// Any error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

impl SourceError {
    /// Returns the `Status` of the server, if there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            SourceError::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Returns whether the requested version has expired.
    pub(crate) fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }
}

/// Returns whether an object is unreadable because of its protobuf encoding.
pub(crate) fn is_about_protobuf(error: &StreamError) -> bool {
    matches!(error, StreamError::Object { source, .. } if source.is_about_protobuf())
}

impl From<Status> for SourceError {
    fn from(status: Status) -> Self {
        SourceError::Status(Box::new(status))
    }
}
