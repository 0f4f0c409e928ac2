//! [`ProtobufError`]: bytes that cannot be decoded from protobuf, or a value that cannot be encoded, and where.

use std::fmt;

use super::TypeMismatch;

/// Why bytes are no object, or an object cannot become bytes. It says where, as a path of JSON such as
/// `spec.containers[1].ports`, and nothing of what stands there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// There are no bytes.
    #[error("there is nothing to read: 0-length protobuf")]
    Empty,
    /// The bytes do not begin with `k8s\0`.
    #[error("this is no Kubernetes protobuf: it does not begin with the bytes 6b 38 73 00")]
    NoPrefix,
    /// There is nothing behind the prefix.
    #[error("there is nothing behind the prefix of the protobuf")]
    NothingInside,
    /// The bytes break the rules of protobuf.
    #[error("malformed protobuf{}: {source}", AtPath(.path))]
    Malformed {
        /// The field at fault; empty for the message as a whole.
        path: Box<str>,
        /// What is wrong.
        source: WireError,
    },
    /// Messages nest too deeply.
    #[error("messages nest deeper than {limit} levels{}", AtPath(.path))]
    TooDeep {
        /// The field where it went too far, as far as it is told.
        path: Box<str>,
        /// How deep they may nest.
        limit: usize,
    },
    /// A field that holds JSON holds something else.
    #[error("this is no JSON{}", AtPath(.path))]
    NotJson {
        /// The field at fault.
        path: Box<str>,
    },
    /// A field that holds an object in a form of its own holds one that is not understood here: CBOR, or a kind that is not
    /// in the table.
    #[error("the form of the object is not understood{}", AtPath(.path))]
    OtherForm {
        /// The field at fault.
        path: Box<str>,
    },
    /// A time that cannot be: its year is not between 0 and 9999, or the text is none.
    #[error("this is no time{}", AtPath(.path))]
    NoTime {
        /// The field at fault.
        path: Box<str>,
    },
    /// The message is sound but does not fit the Rust type, or the Rust type does not want to be written.
    #[error("it does not fit its type{}: {source}", AtPath(.path))]
    TypeMismatch {
        /// The field at fault; empty for the object as a whole.
        path: Box<str>,
        /// Why it does not fit.
        source: TypeMismatch,
    },
    /// The object has a field that the message does not have: it can be sent as JSON only.
    #[error("the field is not representable in protobuf, use JSON{}", AtPath(.path))]
    NotRepresentable {
        /// The field.
        path: Box<str>,
    },
    /// The object has something else in a field than the message has there.
    #[error("expected {expected}{}", AtPath(.path))]
    Unexpected {
        /// The field at fault.
        path: Box<str>,
        /// What belongs there.
        expected: &'static str,
    },
}

impl ProtobufError {
    /// The path of the field at fault; empty for the whole.
    pub fn path(&self) -> &str {
        match self {
            ProtobufError::Empty | ProtobufError::NoPrefix | ProtobufError::NothingInside => "",
            ProtobufError::Malformed { path, .. }
            | ProtobufError::TooDeep { path, .. }
            | ProtobufError::NotJson { path }
            | ProtobufError::OtherForm { path }
            | ProtobufError::NoTime { path }
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
            | ProtobufError::OtherForm { path }
            | ProtobufError::NoTime { path }
            | ProtobufError::TypeMismatch { path, .. }
            | ProtobufError::NotRepresentable { path }
            | ProtobufError::Unexpected { path, .. } => Some(path),
        }
    }
}

/// What is wrong with the bytes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// They end in the middle of something, or something says it is longer than they are.
    Truncated,
    /// A number has more than the ten bytes that 64 bits need.
    LongNumber,
    /// A field has the number zero, or one that no field can have.
    BadTag,
    /// A field has another wire type than the schema says, or one that does not exist.
    WireType(u8),
    /// The end of a group that was not begun, or was begun with another number.
    EndOfGroup,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Truncated => f.write_str("unexpected end of the message"),
            WireError::LongNumber => f.write_str("a number has more than 64 bits"),
            WireError::BadTag => f.write_str("a field has an impossible number"),
            WireError::WireType(found) => write!(f, "the wire type {found} does not fit"),
            WireError::EndOfGroup => f.write_str("a group ends that was not begun"),
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
