//! Methods of [`DecodeError`] for the other crates of evenkeel.

use super::DecodeError;

impl DecodeError {
    /// Returns whether the protobuf format is the cause, so that the object may be readable as JSON.
    pub fn is_about_protobuf(&self) -> bool {
        matches!(self, DecodeError::Protobuf { .. } | DecodeError::UnknownKind { .. })
    }
}
