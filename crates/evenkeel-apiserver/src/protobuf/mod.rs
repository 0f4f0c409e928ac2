//! Decodes request bodies in Kubernetes' protobuf, which Go clients send for built-in kinds, into the JSON form of the
//! object (BIN-1).
//!
//! [`protobuf_response`](crate::protobuf_response) encodes responses.

use evenkeel_core::ProtobufError;
use evenkeel_core::protobuf::{Message, from_slice, unwrap_envelope};
use serde_json::Value;

/// Why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufFault {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    #[error(transparent)]
    Unreadable(ProtobufError),
    #[error("no kind {kind:?} is known for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

/// Decodes a body. The object includes its kind and version, as JSON does.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufFault> {
    let envelope = unwrap_envelope(body).map_err(|error| match error {
        ProtobufError::Empty | ProtobufError::NoPrefix => ProtobufFault::NoPrefix,
        error => ProtobufFault::Unreadable(error),
    })?;
    let Some(message) = Message::of_kind(envelope.api_version, envelope.kind) else {
        let (api_version, kind) = (envelope.api_version.to_owned(), envelope.kind.to_owned());
        return Err(ProtobufFault::UnknownKind { api_version, kind });
    };
    let mut object: Value = from_slice(message, envelope.raw).map_err(ProtobufFault::Unreadable)?;
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".into(), envelope.kind.into());
        fields.insert("apiVersion".into(), envelope.api_version.into());
    }
    Ok(object)
}

#[cfg(test)]
mod tests;
