//! The forms that objects have on the wire. [`Codec`] is what they have in common; [`Json`] is the one that every server
//! speaks of every kind, [`Protobuf`] the one that is cheaper for the kinds that are built into Kubernetes.
//!
//! A codec takes bytes apart just as far as the machinery needs: into a header and a payload that rests as it came. What
//! it makes is not generic over the Rust type of the objects; [`Obj`](crate::Obj), [`ListDecoder`](crate::ListDecoder) and
//! [`WatchDecoder`](crate::WatchDecoder) are thin typed shells around it.

mod chunks;
mod json;
mod payload;
mod protobuf;

use std::fmt;

use bytes::Bytes;

use crate::decode::{DecodeError, Misfit};
use crate::protobuf::ProtobufError;
use crate::resource::ResourceInfo;
use crate::status::Status;
use crate::stream::{ListMeta, StreamError};
use crate::version::ResourceVersion;

pub use json::Json;
pub use payload::Parsed;
pub(crate) use payload::{Form, Payload};
pub use protobuf::Protobuf;

/// A form that objects have on the wire.
///
/// Codecs have no state: they are made once, live for ever (`&'static dyn Codec`) and serve everybody at the same time.
/// Media types are compared without their parameters and in lower case.
pub trait Codec: fmt::Debug + Send + Sync {
    /// The media type of what [`encode`](Self::encode) writes.
    fn media_type(&self) -> &'static str;

    /// Whether it reads objects and lists of this media type.
    fn reads(&self, media_type: &str) -> bool {
        media_type == self.media_type()
    }

    /// Whether it reads watches of this media type.
    fn reads_watch(&self, media_type: &str) -> bool {
        self.reads(media_type)
    }

    /// Whether it has a form for objects of this kind.
    fn knows(&self, kind: ApiKind<'_>) -> bool {
        let _ = kind;
        true
    }

    /// The bytes to send for a value of this kind.
    fn encode(&self, value: &dyn erased_serde::Serialize, kind: ApiKind<'_>) -> Result<Vec<u8>, EncodeError>;

    /// Takes apart one object. A list or anything else that has no name is refused.
    fn decode(&self, bytes: Bytes) -> Result<Parsed, DecodeError>;

    /// Reads an answer that is a [`Status`] and says so. `None` for anything else, also for what cannot be read: this is
    /// asked of answers that are failures already.
    fn decode_status(&self, bytes: &[u8]) -> Option<Status>;

    /// A decoder for one list.
    fn items(&self) -> Box<dyn ItemDecoder>;

    /// A decoder for one watch.
    fn events(&self) -> Box<dyn EventDecoder>;
}

/// Takes a list apart as its bytes arrive. [`ListDecoder`](crate::ListDecoder) says how it is to be used and what may be
/// expected of it.
pub trait ItemDecoder: fmt::Debug + Send {
    /// Sets how large an item may be.
    fn set_limit(&mut self, bytes: usize);

    /// Takes the next bytes.
    fn push(&mut self, chunk: Bytes);

    /// The next item, if all of it is there. `kind` is what items are that do not say, for errors.
    fn next_item(&mut self, kind: &str) -> Result<Option<Parsed>, StreamError>;

    /// The list's own metadata, once the stream has ended.
    fn finish(self: Box<Self>) -> Result<ListMeta, StreamError>;
}

/// Takes a watch apart as its bytes arrive. [`WatchDecoder`](crate::WatchDecoder) says how it is to be used and what may be
/// expected of it.
pub trait EventDecoder: fmt::Debug + Send {
    /// Sets how large an event may be.
    fn set_limit(&mut self, bytes: usize);

    /// Takes the next bytes.
    fn push(&mut self, chunk: Bytes);

    /// The next event, if all of it is there. `kind` is what objects are that do not say, for errors.
    fn next_event(&mut self, kind: &str) -> Result<Option<Event>, StreamError>;

    /// Whether the stream, which has ended, ended between two events.
    fn finish(self: Box<Self>) -> Result<(), StreamError>;
}

/// A [`WatchEvent`](crate::WatchEvent) that does not know the Rust type of its object.
#[derive(Debug)]
pub enum Event {
    /// Something happened to an object.
    Object(Change, Parsed),
    /// Nothing has happened up to this version of the store.
    Bookmark {
        /// The version.
        resource_version: ResourceVersion,
        /// Whether all objects that were there when the watch began have now been sent.
        initial_events_end: bool,
    },
    /// The server ends the watch, and why.
    Error(Box<Status>),
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has come to be, or has come into view.
    Added,
    /// It has changed.
    Modified,
    /// It has gone, or has gone out of view.
    Deleted,
}

impl Change {
    /// The change that a watch calls by this name, such as `ADDED`.
    pub(crate) fn of(event: &str) -> Option<Self> {
        match event {
            "ADDED" => Some(Change::Added),
            "MODIFIED" => Some(Change::Modified),
            "DELETED" => Some(Change::Deleted),
            _ => None,
        }
    }
}

/// The name of a kind: the API version and the kind within it, as objects state them. Both are empty if it is not known.
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

/// A value cannot be written in the form that was asked for, and why. Like [`DecodeError`] it tells no contents of
/// strings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value cannot be written as {media_type}: {problem}")]
pub struct EncodeError {
    media_type: &'static str,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Json(Misfit),
    #[error(transparent)]
    Protobuf(ProtobufError),
    #[error("{0} has no such form, use JSON")]
    UnknownKind(Box<str>),
}

impl EncodeError {
    /// The media type that was asked for.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Whether the value has no such form, as it may have one in JSON: its kind is not known, or it has a field that the
    /// form has no room for.
    pub fn needs_json(&self) -> bool {
        matches!(&self.problem, Problem::UnknownKind(_) | Problem::Protobuf(ProtobufError::NotRepresentable { .. }))
    }
}
