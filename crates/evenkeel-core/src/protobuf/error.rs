//! [`ProtobufError`]: what cannot be read or written as protobuf, and where.

use std::fmt;

use serde::{de, ser};

use super::wire::WireFault;
use crate::decode::Misfit;

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
    #[error("malformed protobuf{}: {source}", Place(.path))]
    Malformed {
        /// The field at fault; empty for the message as a whole.
        path: Box<str>,
        /// What is wrong.
        source: WireFault,
    },
    /// Messages nest too deeply.
    #[error("messages nest deeper than {limit} levels{}", Place(.path))]
    TooDeep {
        /// The field where it went too far, as far as it is told.
        path: Box<str>,
        /// How deep they may nest.
        limit: usize,
    },
    /// A field that holds JSON holds something else.
    #[error("this is no JSON{}", Place(.path))]
    NotJson {
        /// The field at fault.
        path: Box<str>,
    },
    /// A field that holds an object in a form of its own holds one that is not understood here: CBOR, or a kind that is not
    /// in the table.
    #[error("the form of the object is not understood{}", Place(.path))]
    OtherForm {
        /// The field at fault.
        path: Box<str>,
    },
    /// A time that cannot be: its year is not between 0 and 9999, or the text is none.
    #[error("this is no time{}", Place(.path))]
    NoTime {
        /// The field at fault.
        path: Box<str>,
    },
    /// The message is sound but does not fit the Rust type, or the Rust type does not want to be written.
    #[error("it does not fit its type{}: {source}", Place(.path))]
    Misfit {
        /// The field at fault; empty for the object as a whole.
        path: Box<str>,
        /// Why it does not fit.
        source: Misfit,
    },
    /// The object has a field that the message does not have: it can be sent as JSON only.
    #[error("the field is not representable in protobuf, use JSON{}", Place(.path))]
    NotRepresentable {
        /// The field.
        path: Box<str>,
    },
    /// The object has something else in a field than the message has there.
    #[error("expected {expected}{}", Place(.path))]
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
            | ProtobufError::Misfit { path, .. }
            | ProtobufError::NotRepresentable { path }
            | ProtobufError::Unexpected { path, .. } => path,
        }
    }

    fn path_mut(&mut self) -> Option<&mut Box<str>> {
        match self {
            ProtobufError::Empty | ProtobufError::NoPrefix | ProtobufError::NothingInside => None,
            ProtobufError::Malformed { path, .. }
            | ProtobufError::TooDeep { path, .. }
            | ProtobufError::NotJson { path }
            | ProtobufError::OtherForm { path }
            | ProtobufError::NoTime { path }
            | ProtobufError::Misfit { path, .. }
            | ProtobufError::NotRepresentable { path }
            | ProtobufError::Unexpected { path, .. } => Some(path),
        }
    }
}

/// An error on its way up: small, so that results are, and gathering its path as it goes.
#[derive(Debug)]
pub(crate) struct Failure(Box<ProtobufError>);

impl Failure {
    #[cold]
    pub(crate) fn new(error: ProtobufError) -> Failure {
        Failure(Box::new(error))
    }

    #[cold]
    pub(crate) fn unexpected(expected: &'static str) -> Failure {
        Failure::new(ProtobufError::Unexpected { path: "".into(), expected })
    }

    /// The same, in a field of this name.
    #[cold]
    pub(crate) fn in_field(mut self, name: &str) -> Failure {
        if let Some(path) = self.0.path_mut() {
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            *path = format!("{name}{dot}{path}").into();
        }
        self
    }

    /// The same, in this item of a list.
    #[cold]
    pub(crate) fn in_item(self, index: usize) -> Failure {
        self.in_field(&format!("[{index}]"))
    }
}

impl From<WireFault> for Failure {
    #[cold]
    fn from(source: WireFault) -> Failure {
        Failure::new(ProtobufError::Malformed { path: "".into(), source })
    }
}

impl From<Failure> for ProtobufError {
    fn from(failure: Failure) -> ProtobufError {
        *failure.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl de::Error for Failure {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Failure {
        let source = Misfit::new(&<serde_json::Error as de::Error>::custom(message));
        Failure::new(ProtobufError::Misfit { path: "".into(), source })
    }
}

impl ser::Error for Failure {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Failure {
        de::Error::custom(message)
    }
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " at {}", self.0) }
    }
}
