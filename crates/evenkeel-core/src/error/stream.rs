//! [`StreamError`]: a malformed list or watch.

use std::fmt;

use super::{DecodeError, ProtobufError, TypeMismatch};
use crate::json::JsonError;
use crate::key::ObjectKey;

/// An error in a list or a watch stream. Offsets count bytes from the start of the stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A JSON stream is malformed outside of its items or events.
    #[error("malformed stream: {0}")]
    Json(#[from] JsonError),
    /// A protobuf stream is malformed outside of its items or events.
    #[error("malformed stream: at byte {offset}: {source}")]
    Protobuf {
        /// The offset of the malformed field.
        offset: u64,
        /// What is wrong.
        source: ProtobufError,
    },
    /// The stream is protobuf of a kind that the schema table does not contain. Request it as JSON instead.
    #[error("no protobuf schema for {kind}; use JSON")]
    UnknownKind {
        /// The API version and kind, such as `example.com/v1 FooList`.
        kind: String,
    },
    /// One item or event exceeds the limit of the decoder.
    #[error("stream at byte {offset} ({path}): larger than the limit of {limit} bytes")]
    TooLarge {
        /// The offset of the item.
        offset: u64,
        /// Which item, such as `items[3]`.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// The stream ended in the middle of an item, an event or a list.
    #[error("stream ended at byte {offset} in the middle of {path}")]
    Truncated {
        /// The length of the stream.
        offset: u64,
        /// What was cut off, such as `items[3]`.
        path: String,
    },
    /// The decoder stopped at an earlier fatal error.
    #[error("stream closed after an error")]
    Closed,
    /// The response is an object without `items`, so it is not a list.
    #[error("expected a list, found {}", if kind.is_empty() { "an object without items" } else { kind })]
    NotAList {
        /// The kind that it states; empty if it states none.
        kind: String,
    },
    /// The list is of another kind than requested. Its items are not objects of the requested kind.
    #[error("expected {expected}, found {found}")]
    OtherKind {
        /// The API version and kind of the requested list, such as `v1 PodList`.
        expected: String,
        /// The API version and kind that the list states, printable and truncated.
        found: String,
    },
    /// One item or event is not an object of the API.
    #[error("stream at byte {offset}{}: {source}", Subject { item, key, source })]
    Object {
        /// The offset of the item or event.
        offset: u64,
        /// The index of the item in the list; `None` for an event.
        item: Option<usize>,
        /// The key of the object, if it can be determined.
        key: Option<Box<ObjectKey>>,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// An event has an unknown type.
    #[error("stream at byte {offset}: got invalid watch event type: {event:?}")]
    UnknownEvent {
        /// The offset of the event.
        offset: u64,
        /// The type that it states; empty if it states none.
        event: String,
    },
    /// An error event contains no valid status.
    #[error("stream at byte {offset}: error event without a status: {source}")]
    InvalidStatus {
        /// The offset of the event.
        offset: u64,
        /// Why it is no status.
        source: TypeMismatch,
    },
}

impl StreamError {
    /// Returns whether decoding stops here. After any other error the decoder continues with the next item or event.
    pub fn is_fatal(&self) -> bool {
        match self {
            StreamError::Json(_)
            | StreamError::Protobuf { .. }
            | StreamError::UnknownKind { .. }
            | StreamError::TooLarge { .. }
            | StreamError::Truncated { .. }
            | StreamError::Closed
            | StreamError::NotAList { .. }
            | StreamError::OtherKind { .. } => true,
            StreamError::Object { .. } | StreamError::UnknownEvent { .. } | StreamError::InvalidStatus { .. } => false,
        }
    }
}

/// Names the object of a stream that is malformed. The path of a JSON error contains the index already.
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
