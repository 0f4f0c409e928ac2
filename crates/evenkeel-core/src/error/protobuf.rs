//! [`ProtobufError`]: bytes that cannot be decoded from protobuf, or a value that cannot be encoded, and where.

use std::fmt;

use super::TypeMismatch;

/// Bytes that cannot be decoded, or a value that cannot be encoded. The error names the JSON path, such as
/// `spec.containers[1].ports`, and none of the contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// There are no bytes.
    #[error("empty body: 0-length protobuf")]
    Empty,
    /// The bytes do not start with `k8s\0`.
    #[error("no Kubernetes protobuf: it does not start with the bytes 6b 38 73 00")]
    NoPrefix,
    /// Nothing follows the prefix.
    #[error("nothing follows the prefix of the protobuf")]
    NothingInside,
    /// The bytes violate the wire format.
    #[error("malformed protobuf{}: {source}", AtPath(.path))]
    Malformed {
        /// The malformed field; empty for the whole message.
        path: Box<str>,
        /// What is wrong.
        source: WireError,
    },
    /// Messages nest too deeply.
    #[error("messages nest deeper than {limit} levels{}", AtPath(.path))]
    TooDeep {
        /// The field that exceeds the limit.
        path: Box<str>,
        /// The limit.
        limit: usize,
    },
    /// A field of embedded JSON contains something else.
    #[error("invalid JSON{}", AtPath(.path))]
    NotJson {
        /// The malformed field.
        path: Box<str>,
    },
    /// A field of an embedded object has an unsupported format: CBOR, or a kind without a schema.
    #[error("unsupported format of the embedded object{}", AtPath(.path))]
    UnsupportedFormat {
        /// The malformed field.
        path: Box<str>,
    },
    /// A time whose year is not between 0 and 9999, or whose text is malformed.
    #[error("invalid time{}", AtPath(.path))]
    InvalidTime {
        /// The malformed field.
        path: Box<str>,
    },
    /// The message is well-formed but does not fit the Rust type, or the `Serialize` of the Rust type failed.
    #[error("the value does not fit its type{}: {source}", AtPath(.path))]
    TypeMismatch {
        /// The field; empty for the whole object.
        path: Box<str>,
        /// Why it does not fit.
        source: TypeMismatch,
    },
    /// The object has a field that the message has not: send it as JSON.
    #[error("the field is not representable in protobuf, use JSON{}", AtPath(.path))]
    NotRepresentable {
        /// The field.
        path: Box<str>,
    },
    /// A field of the object has another type than in the message.
    #[error("expected {expected}{}", AtPath(.path))]
    Unexpected {
        /// The malformed field.
        path: Box<str>,
        /// The expected type.
        expected: &'static str,
    },
}

impl ProtobufError {
    /// Returns the path of the malformed field; empty for the whole message.
    pub fn path(&self) -> &str {
        match self {
            ProtobufError::Empty | ProtobufError::NoPrefix | ProtobufError::NothingInside => "",
            ProtobufError::Malformed { path, .. }
            | ProtobufError::TooDeep { path, .. }
            | ProtobufError::NotJson { path }
            | ProtobufError::UnsupportedFormat { path }
            | ProtobufError::InvalidTime { path }
            | ProtobufError::TypeMismatch { path, .. }
            | ProtobufError::NotRepresentable { path }
            | ProtobufError::Unexpected { path, .. } => path,
        }
    }

    pub(crate) fn path_mut(&mut self) -> Option<&mut Box<str>> {
        match self {
            ProtobufError::Empty | ProtobufError::NoPrefix | ProtobufError::NothingInside => None,
            ProtobufError::Malformed { path, .. }
            | ProtobufError::TooDeep { path, .. }
            | ProtobufError::NotJson { path }
            | ProtobufError::UnsupportedFormat { path }
            | ProtobufError::InvalidTime { path }
            | ProtobufError::TypeMismatch { path, .. }
            | ProtobufError::NotRepresentable { path }
            | ProtobufError::Unexpected { path, .. } => Some(path),
        }
    }
}

/// A violation of the protobuf wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end in the middle of a value, or a length exceeds them.
    Truncated,
    /// A varint exceeds the ten bytes of 64 bits.
    LongNumber,
    /// A field number is zero or out of range.
    BadTag,
    /// A wire type is unknown, or not that of the schema.
    WireType(u8),
    /// The end of a group without its start.
    EndOfGroup,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Truncated => f.write_str("unexpected end of the message"),
            WireError::LongNumber => f.write_str("a varint has more than 64 bits"),
            WireError::BadTag => f.write_str("a field number is out of range"),
            WireError::WireType(found) => write!(f, "unexpected wire type {found}"),
            WireError::EndOfGroup => f.write_str("the end of a group without its start"),
        }
    }
}

impl std::error::Error for WireError {}

struct AtPath<'a>(&'a str);

impl fmt::Display for AtPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " at {}", self.0) }
    }
}
