//! Bytes from the wire into objects and watch events.
//!
//! The flow, in the order of the files: [`WatchDecoder`] and [`ListDecoder`] receive chunks of a response body
//! (`watch.rs`, `list.rs`); the decoder of the wire format finds the next complete event or item (`json/` or `protobuf/`, each
//! with `watch.rs`, `list.rs` and the `buffer.rs` below them) and reads its [`Header`]; the result is an [`Obj`](crate::Obj) with an
//! undecoded payload.

mod chunks;
mod json;
mod list;
mod protobuf;
mod watch;

use std::fmt;

use bytes::Bytes;

use crate::error::{DecodeError, EncodeError};
use crate::header::Header;
use crate::obj::Payload;
use crate::resource::ResourceInfo;
use crate::status::Status;
#[cfg(test)]
use crate::stream::WatchEvent;

pub use list::{DEFAULT_MAX_ITEM_BYTES, ListDecoder};
pub use watch::WatchDecoder;

/// A wire format of the API.
///
/// Every server reads and writes JSON for every kind. Protobuf is smaller and cheaper to decode, but exists only for the kinds
/// that are built into Kubernetes and their lists.
///
/// ```
/// use evenkeel_core::codec::{ApiKind, Codec};
///
/// let kind = ApiKind { api_version: "example.com/v1", kind: "Foo" };
/// assert_eq!(Codec::Json.encode(&["a"], kind)?, b"[\"a\"]\n");
/// assert!(!Codec::Protobuf.supports(kind));
/// # Ok::<(), evenkeel_core::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// `application/json`. [`encode`](Self::encode) writes compact JSON and a trailing newline, as Go's encoder does.
    #[default]
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Codec {
    /// Returns the media type of bodies in this format, without parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Codec::Json => "application/json",
            Codec::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the codec of a media type, which must be in lower case and without parameters.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        [Codec::Json, Codec::Protobuf].into_iter().find(|codec| codec.media_type() == media_type)
    }

    /// Returns whether this format can represent objects of a kind.
    pub fn supports(self, kind: ApiKind<'_>) -> bool {
        match self {
            Codec::Json => true,
            Codec::Protobuf => protobuf::supports(kind),
        }
    }

    /// Encodes a value of a kind.
    pub fn encode(self, value: &dyn erased_serde::Serialize, kind: ApiKind<'_>) -> Result<Vec<u8>, EncodeError> {
        match self {
            Codec::Json => json::encode(value),
            Codec::Protobuf => protobuf::encode(value, kind),
        }
    }

    /// Reads the header of one object and keeps its payload. Returns an error for a list and anything else without a name.
    pub(crate) fn decode(self, bytes: Bytes) -> Result<ParsedObject, DecodeError> {
        match self {
            Codec::Json => json::decode(bytes),
            Codec::Protobuf => protobuf::decode(bytes),
        }
    }

    /// Decodes a body that states that it is a [`Status`]. Returns `None` for anything else, also for a malformed body: the
    /// caller has a failed response already.
    pub fn decode_status(self, bytes: &[u8]) -> Option<Status> {
        match self {
            Codec::Json => json::decode_status(bytes),
            Codec::Protobuf => protobuf::read_status(bytes).ok(),
        }
    }
}

/// A decoded header with a name, and the undecoded payload.
pub(crate) struct ParsedObject {
    pub(crate) header: Header,
    pub(crate) payload: Payload,
}

/// What happened to the object of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEventType {
    Added,
    Modified,
    Deleted,
}

impl WatchEventType {
    /// Returns the type with this name on the wire, such as `ADDED`. Bookmarks and errors carry no object and have none.
    fn of(name: &str) -> Option<Self> {
        match name {
            "ADDED" => Some(WatchEventType::Added),
            "MODIFIED" => Some(WatchEventType::Modified),
            "DELETED" => Some(WatchEventType::Deleted),
            _ => None,
        }
    }
}

/// An API version and a kind, as objects state them. Both are empty if the kind is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ApiKind<'a> {
    /// Group and version: `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
}

impl<'a> From<&'a ResourceInfo> for ApiKind<'a> {
    fn from(info: &'a ResourceInfo) -> Self {
        ApiKind { api_version: info.api_version(), kind: info.kind() }
    }
}

impl fmt::Display for ApiKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

#[cfg(test)]
mod tests;
