//! [`DecodeError`]: an object that cannot be read, and why.

use std::fmt;

use crate::json::JsonError;
use crate::key::ObjectKey;
use crate::protobuf::ProtobufError;

/// An object that cannot be read. It concerns this object alone: the list or the watch that it came in goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The object's JSON or its metadata is malformed.
    #[error("cannot read {}: {source}", Subject(.kind))]
    Json {
        /// The kind of the object, if it is known.
        kind: Option<Box<str>>,
        /// What is wrong and where.
        source: JsonError,
    },
    /// The object's protobuf is malformed. Only its metadata is read when it comes; the rest is when it is asked for.
    #[error("cannot read {}{}: {source}", Subject(.kind), Called(.key))]
    Protobuf {
        /// The kind of the object, if it is known.
        kind: Option<Box<str>>,
        /// Its key, if it is known.
        key: Option<Box<ObjectKey>>,
        /// What is wrong and where.
        source: ProtobufError,
    },
    /// The object is protobuf of a kind that has no known form in it. It can be had as JSON.
    #[error("the protobuf form of {kind} is not known, use JSON")]
    UnknownKind {
        /// The API version and kind, such as `example.com/v1 Foo`.
        kind: Box<str>,
    },
    /// There is no `metadata`, so it is not an object of the API.
    #[error("object has no meta: {} has no metadata", Subject(.kind))]
    NoMetadata {
        /// The kind of the object, if it is known.
        kind: Option<Box<str>>,
    },
    /// The object has no name. A list has metadata but no name, too.
    #[error("object has no meta: {} has no metadata.name", Subject(.kind))]
    NoName {
        /// The kind of the object, if it is known.
        kind: Option<Box<str>>,
    },
    /// The object rests packed in memory and does not come back as it was: its memory was damaged. Nothing can be read of
    /// it but its header. Asking the server for it again brings it back.
    #[error("{} {key} cannot be unpacked: its memory is damaged", Subject(.kind))]
    Corrupt {
        /// The kind of the object, if it states it.
        kind: Option<Box<str>>,
        /// Its key.
        key: Box<ObjectKey>,
    },
    /// The object is sound, but of another kind than it was to be.
    #[error("expected {expected}, found {found}")]
    OtherKind {
        /// The API version and kind that it was to be, such as `apps/v1 Deployment`.
        expected: Box<str>,
        /// What it says it is.
        found: Box<str>,
    },
    /// The object is sound, but does not fit the Rust type it was to be decoded into.
    #[error("{kind} {key} does not fit its type at {}: {source}", Place(.path))]
    Typed {
        /// The kind of the object.
        kind: Box<str>,
        /// Its key.
        key: Box<ObjectKey>,
        /// The path of the value that does not fit, such as `spec.replicas`; empty for the object as a whole.
        path: Box<str>,
        /// Why it does not fit.
        source: Misfit,
    },
}

impl DecodeError {
    /// The path of the value at fault; empty for the object as a whole.
    pub fn path(&self) -> &str {
        match self {
            DecodeError::Json { source, .. } => source.path(),
            DecodeError::Protobuf { source, .. } => source.path(),
            DecodeError::NoMetadata { .. } | DecodeError::Corrupt { .. } => "",
            DecodeError::OtherKind { .. } | DecodeError::UnknownKind { .. } => "kind",
            DecodeError::NoName { .. } => "metadata.name",
            DecodeError::Typed { path, .. } => path,
        }
    }

    /// Whether the fault is that of the form the object came in, so that it may be readable as JSON.
    pub fn is_about_protobuf(&self) -> bool {
        matches!(self, DecodeError::Protobuf { .. } | DecodeError::UnknownKind { .. })
    }

    /// The same error, saying what kind the object was to be if it did not say so itself.
    pub(crate) fn of_kind(mut self, name: &str) -> Self {
        match &mut self {
            DecodeError::Json { kind, .. }
            | DecodeError::Protobuf { kind, .. }
            | DecodeError::NoMetadata { kind }
            | DecodeError::NoName { kind }
            | DecodeError::Corrupt { kind, .. } => {
                kind.get_or_insert_with(|| name.into());
            }
            DecodeError::OtherKind { .. } | DecodeError::UnknownKind { .. } | DecodeError::Typed { .. } => {}
        }
        self
    }

    /// The same error, of an object that stands at `offset` and `path` of a stream.
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

/// Why a value does not fit a Rust type: serde's words, without what stands in quotes, as that is the contents of a
/// string of the object, which may be secret. A `Deserialize` of your own that puts such contents into its errors without
/// quotes tells them to whoever reads the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit(Box<str>);

impl Misfit {
    /// Words that are ours already, or that are to become so.
    pub(crate) fn of(problem: &impl fmt::Display) -> Self {
        let mut text = problem.to_string();
        redact(&mut text);
        Misfit(text.into())
    }

    pub(crate) fn new(error: &serde_json::Error) -> Self {
        let mut text = error.to_string();
        // The place is told by the path; line and column would be those of one line of JSON.
        if let Some(at) = text.rfind(" at line ") {
            text.truncate(at);
        }
        redact(&mut text);
        Misfit(text.into())
    }
}

/// Takes out what an error says of the contents of a string. It may have quotes in it itself, so it goes to the last one.
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

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misfit {}

struct Subject<'a>(&'a Option<Box<str>>);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("object"))
    }
}

struct Called<'a>(&'a Option<Box<ObjectKey>>);

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |key| write!(f, " {key}"))
    }
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "its root" } else { self.0 })
    }
}
