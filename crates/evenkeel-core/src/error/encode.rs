//! [`EncodeError`]: a value that cannot be encoded.

use super::{ProtobufError, TypeMismatch};

/// A value cannot be encoded in a wire format. Like [`DecodeError`](super::DecodeError) it contains no contents of strings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot encode the value as {media_type}: {problem}")]
pub struct EncodeError {
    media_type: &'static str,
    problem: EncodeProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum EncodeProblem {
    #[error(transparent)]
    Json(TypeMismatch),
    #[error(transparent)]
    Protobuf(ProtobufError),
    #[error("no protobuf schema for {0}; use JSON")]
    UnknownKind(Box<str>),
}

impl EncodeError {
    pub(crate) fn json(media_type: &'static str, source: TypeMismatch) -> Self {
        EncodeError { media_type, problem: EncodeProblem::Json(source) }
    }

    pub(crate) fn protobuf(media_type: &'static str, source: ProtobufError) -> Self {
        EncodeError { media_type, problem: EncodeProblem::Protobuf(source) }
    }

    pub(crate) fn unknown_kind(media_type: &'static str, kind: &str) -> Self {
        EncodeError { media_type, problem: EncodeProblem::UnknownKind(kind.into()) }
    }

    /// Returns whether the value may be encodable as JSON: protobuf has no schema for its kind, or no field for a value.
    #[cfg(test)]
    pub(crate) fn needs_json(&self) -> bool {
        matches!(
            &self.problem,
            EncodeProblem::UnknownKind(_) | EncodeProblem::Protobuf(ProtobufError::NotRepresentable { .. })
        )
    }
}
