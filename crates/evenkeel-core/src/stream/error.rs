//! What can go wrong with a stream of objects.

use std::fmt;

use crate::decode::{DecodeError, Misfit};
use crate::json::JsonError;
use crate::key::ObjectKey;
use crate::protobuf::ProtobufError;

/// A fault in a list or a watch stream. Offsets count the bytes of the whole stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream is not what it should be, and what follows cannot be made sense of.
    #[error("malformed stream: {source}")]
    Malformed {
        /// What is wrong and where.
        source: Malformation,
    },
    /// The stream is protobuf of a kind that has no known form in it. It can be had as JSON.
    #[error("the protobuf form of {kind} is not known, use JSON")]
    UnknownKind {
        /// The API version and kind, such as `example.com/v1 FooList`.
        kind: String,
    },
    /// One item or event is larger than the decoder takes.
    #[error("stream at byte {offset} ({path}): larger than the limit of {limit} bytes")]
    TooLarge {
        /// Where the item starts.
        offset: u64,
        /// Which item, such as `items[3]`.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// The stream ended in the middle of an item, an event or a list.
    #[error("stream ended at byte {offset} in the middle of {path}")]
    Truncated {
        /// Where the stream ended.
        offset: u64,
        /// What was cut off, such as `items[3]`.
        path: String,
    },
    /// The stream was given up because of an earlier error, so there is nothing to be said of its end.
    #[error("stream was given up after an error")]
    GivenUp,
    /// The answer is an object but has no `items`, so it is not a list.
    #[error("expected a list, found {}", if kind.is_empty() { "an object without items" } else { kind })]
    NotAList {
        /// What it says it is; empty if it does not say.
        kind: String,
    },
    /// One item or event holds something that is not an object of the API.
    #[error("stream at byte {offset}{}: {source}", Subject { item, key, source })]
    Object {
        /// Where the item or event starts.
        offset: u64,
        /// Which item of the list it is, counted from 0; `None` for an event.
        item: Option<usize>,
        /// The key of the object, as far as it can be made out.
        key: Option<Box<ObjectKey>>,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// An event has a type that there is not.
    #[error("stream at byte {offset}: got invalid watch event type: {event:?}")]
    UnknownEvent {
        /// Where the event starts.
        offset: u64,
        /// The type that it states; empty if it states none.
        event: String,
    },
    /// An error event holds something that is not a status.
    #[error("stream at byte {offset}: error event without a status: {source}")]
    BadStatus {
        /// Where the event starts.
        offset: u64,
        /// Why it is not a status.
        source: Misfit,
    },
}

impl StreamError {
    /// Whether the stream is at its end with this. If not, the decoder has passed what was at fault and goes on with
    /// what follows it.
    pub fn is_fatal(&self) -> bool {
        match self {
            StreamError::Malformed { .. }
            | StreamError::UnknownKind { .. }
            | StreamError::TooLarge { .. }
            | StreamError::Truncated { .. }
            | StreamError::GivenUp
            | StreamError::NotAList { .. } => true,
            StreamError::Object { .. } | StreamError::UnknownEvent { .. } | StreamError::BadStatus { .. } => false,
        }
    }
}

impl From<JsonError> for StreamError {
    fn from(source: JsonError) -> Self {
        StreamError::Malformed { source: Malformation::Json(source) }
    }
}

/// What is wrong with a stream, in the terms of the form that it is in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformation {
    /// The stream is JSON.
    #[error(transparent)]
    Json(JsonError),
    /// The stream is protobuf.
    #[error("at byte {offset}: {source}")]
    Protobuf {
        /// Where the field at fault starts, counted in bytes from the start of the stream.
        offset: u64,
        /// What is wrong.
        source: ProtobufError,
    },
}

impl Malformation {
    /// Where the fault stands, counted in bytes from the start of the stream.
    pub fn offset(&self) -> u64 {
        match self {
            Malformation::Json(source) => source.offset(),
            Malformation::Protobuf { offset, .. } => *offset,
        }
    }

    /// In which value the fault stands, such as `metadata.continue`; empty for the whole stream.
    pub fn path(&self) -> &str {
        match self {
            Malformation::Json(source) => source.path(),
            Malformation::Protobuf { source, .. } => source.path(),
        }
    }
}

/// Which object of a stream is at fault. Its place in the list is told by the path of a JSON error already.
struct Subject<'a> {
    item: &'a Option<usize>,
    key: &'a Option<Box<ObjectKey>>,
    source: &'a DecodeError,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.item
            && !matches!(self.source, DecodeError::Json { .. })
        {
            write!(f, ", items[{index}]")?;
        }
        match self.key {
            Some(key) => write!(f, ", {key}"),
            None => Ok(()),
        }
    }
}
