//! The errors of the crate: [`DecodeError`] for one object, [`StreamError`] for a list or a watch, [`EncodeError`] and
//! [`ProtobufError`].

mod encode;
#[cfg(feature = "internals")]
mod internals;
mod protobuf;
mod stream;

use std::fmt;

use crate::json::{JsonError, PathError};
use crate::key::ObjectKey;

pub use encode::EncodeError;
pub use protobuf::{ProtobufError, WireError};
pub use stream::StreamError;

/// An object cannot be decoded. The error affects this object alone: the list or watch that it is part of continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The object's JSON or its metadata is malformed.
    #[error("cannot decode {}: {source}", KindName(.kind))]
    Json {
        /// The kind of the object, if known.
        kind: Option<Box<str>>,
        /// What is wrong and where.
        source: JsonError,
    },
    /// The object's protobuf is malformed. The metadata is checked when the object arrives, the rest when it is decoded.
    #[error("cannot decode {}{}: {source}", KindName(.kind), Key(.key))]
    Protobuf {
        /// The kind of the object, if known.
        kind: Option<Box<str>>,
        /// Its key, if known.
        key: Option<Box<ObjectKey>>,
        /// What is wrong and where.
        source: ProtobufError,
    },
    /// The object is protobuf of a kind that the schema table does not contain. Request it as JSON instead.
    #[error("no protobuf schema for {kind}; use JSON")]
    UnknownKind {
        /// The API version and kind, such as `example.com/v1 Foo`.
        kind: Box<str>,
    },
    /// The object has no `metadata`, so it is not an object of the API.
    #[error("object has no meta: {} has no metadata", KindName(.kind))]
    NoMetadata {
        /// The kind of the object, if known.
        kind: Option<Box<str>>,
    },
    /// The object has no name. Lists have metadata but no name, too.
    #[error("object has no meta: {} has no metadata.name", KindName(.kind))]
    NoName {
        /// The kind of the object, if known.
        kind: Option<Box<str>>,
    },
    /// The packed payload does not match its checksum: its memory is damaged. The header stays readable. Get the object from
    /// the server again.
    #[error("cannot unpack {} {key}: its memory is damaged", KindName(.kind))]
    Corrupt {
        /// The kind of the object, if it states it.
        kind: Option<Box<str>>,
        /// Its key.
        key: Box<ObjectKey>,
    },
    /// The object is well-formed, but of another kind than expected.
    #[error("expected {expected}, found {found}")]
    OtherKind {
        /// The expected API version and kind, such as `apps/v1 Deployment`.
        expected: Box<str>,
        /// The kind that the object states.
        found: Box<str>,
    },
    /// The object is well-formed, but does not fit the Rust type.
    #[error("{kind} {key} does not fit its type at {}: {source}", PathOrRoot(.path))]
    Typed {
        /// The kind of the object.
        kind: Box<str>,
        /// Its key.
        key: Box<ObjectKey>,
        /// The path of the value that does not fit, such as `spec.replicas`; empty for the whole object.
        path: Box<str>,
        /// Why it does not fit.
        source: TypeMismatch,
    },
    /// The path that was looked up is malformed. The object itself may be fine.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl DecodeError {
    /// Returns the path of the value at fault; empty for the whole object.
    pub fn path(&self) -> &str {
        match self {
            DecodeError::Json { source, .. } => source.path(),
            DecodeError::Protobuf { source, .. } => source.path(),
            DecodeError::NoMetadata { .. } | DecodeError::Corrupt { .. } => "",
            DecodeError::OtherKind { .. } | DecodeError::UnknownKind { .. } => "kind",
            DecodeError::NoName { .. } => "metadata.name",
            DecodeError::Typed { path, .. } => path,
            DecodeError::Path(source) => source.path(),
        }
    }

    /// Sets the kind of the object, unless the object stated it.
    pub(crate) fn of_kind(mut self, name: &str) -> Self {
        match &mut self {
            DecodeError::Json { kind, .. }
            | DecodeError::Protobuf { kind, .. }
            | DecodeError::NoMetadata { kind }
            | DecodeError::NoName { kind }
            | DecodeError::Corrupt { kind, .. } => {
                kind.get_or_insert_with(|| name.into());
            }
            DecodeError::OtherKind { .. }
            | DecodeError::UnknownKind { .. }
            | DecodeError::Typed { .. }
            | DecodeError::Path(_) => {}
        }
        self
    }

    /// Makes offset and path relative to a stream that contains the object at `offset` and `path`.
    pub(crate) fn within(self, offset: u64, path: &str) -> Self {
        match self {
            DecodeError::Json { kind, source } => DecodeError::Json { kind, source: source.within(offset, path) },
            other => other,
        }
    }
}

impl From<ProtobufError> for DecodeError {
    fn from(source: ProtobufError) -> Self {
        DecodeError::Protobuf { kind: None, key: None, source }
    }
}

impl From<JsonError> for DecodeError {
    fn from(source: JsonError) -> Self {
        DecodeError::Json { kind: None, source }
    }
}

/// Why a value does not fit a Rust type: serde's message without its quoted parts, as these are contents of the object and may
/// be secret. A `Deserialize` implementation that puts contents into its errors without quotes leaks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch(Box<str>);

impl TypeMismatch {
    pub(crate) fn of(problem: &impl fmt::Display) -> Self {
        let mut text = problem.to_string();
        redact(&mut text);
        TypeMismatch(text.into())
    }

    pub(crate) fn new(error: &serde_json::Error) -> Self {
        let mut text = error.to_string();
        // The path names the position; line and column would be those of single-line JSON.
        if let Some(at) = text.rfind(" at line ") {
            text.truncate(at);
        }
        redact(&mut text);
        TypeMismatch(text.into())
    }
}

/// Removes the quoted contents of a string from an error. The contents may contain quotes, so it removes up to the last one.
fn redact(text: &mut String) {
    let variant = "unknown variant `";
    let quoted = if text.starts_with(variant) {
        let end = ["`, expected ", "`, there are no variants"].iter().find_map(|after| text.rfind(after));
        end.map(|end| variant.len() - 2..end + 1)
    } else {
        let ends = text.find('"').zip(text.rfind('"'));
        ends.map(|(start, end)| start - usize::from(text.get(..start).is_some_and(|text| text.ends_with(' ')))..end + 1)
    };
    if let Some(range) = quoted.filter(|range| range.start < range.end) {
        text.replace_range(range, "");
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeMismatch {}

struct KindName<'a>(&'a Option<Box<str>>);

impl fmt::Display for KindName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("object"))
    }
}

struct Key<'a>(&'a Option<Box<ObjectKey>>);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |key| write!(f, " {key}"))
    }
}

struct PathOrRoot<'a>(&'a str);

impl fmt::Display for PathOrRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "its root" } else { self.0 })
    }
}
