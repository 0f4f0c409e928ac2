//! Kubernetes protobuf by serde, for the types that read and write JSON.
//!
//! The API server supports protobuf for the built-in kinds: it is smaller than JSON and cheaper to decode. A table maps the messages
//! of Kubernetes to their JSON, so that the `Deserialize` and `Serialize` of any type of an object, such as those of `k8s_openapi`,
//! work on protobuf as they do on JSON. There are no generated types.
//!
//! ```
//! use evenkeel_core::protobuf::{self, Message};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! let message = Message::of_kind("v1", "ConfigMap").expect("a built-in kind");
//! let bytes = protobuf::to_vec(message, &json!({"metadata": {"name": "a"}, "data": {"key": "value"}}))?;
//! let map: ConfigMap = protobuf::from_slice(message, &bytes)?;
//! assert_eq!(map.data.unwrap()["key"], "value");
//!
//! let mut text = Vec::new();
//! protobuf::write_json(message, &bytes, Some(("v1", "ConfigMap")), &mut text)?;
//! assert_eq!(text, br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"key":"value"}}"#);
//! # Ok::<(), evenkeel_core::ProtobufError>(())
//! ```
//!
//! On the wire every object is in an envelope with its kind: [`wrap_envelope`] and [`unwrap_envelope`].
//!
//! # Guarantees
//!
//! - Decoding a message gives the same value as decoding the JSON of the same object, and encoding gives the server what the JSON
//!   would. A value that only JSON can represent is an error, never lost.
//! - Messages contain no `apiVersion` and `kind`. Decoding does not produce them, encoding ignores them.
//! - Unknown fields are skipped: they are from a newer version of Kubernetes than the table.
//! - No input causes a panic, unbounded recursion, or memory use beyond a small multiple of its size.
//! - Errors name the field, and none of its contents.
//!
//! # Not supported
//!
//! - Custom resources: they have no protobuf, and no [`Message`].
//! - The difference between an empty list and none, which protobuf cannot represent.

mod de;
mod envelope;
mod error;
mod field_reader;
mod json;
mod ser;
mod table;
mod time;
mod well_known;
mod wire;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ProtobufError;

pub(crate) use de::{RAW_VALUE, visit_raw};
pub(crate) use envelope::PREFIX;
pub use envelope::{Envelope, unwrap_envelope, wrap_envelope};
pub(crate) use error::BoxedError;
pub(crate) use field_reader::bytes_of;
pub use table::Message;
pub(crate) use table::{Cardinality, Field, FieldKind};
pub(crate) use wire::{BYTES, Reader, Wire, put_varint, varint_length};

/// The nesting limit of messages: that of serde_json, so that no type needs more stack than for JSON.
pub const DEPTH_LIMIT: usize = 128;

/// Decodes an object from its message without an envelope.
pub fn from_slice<T: DeserializeOwned>(message: &'static Message, bytes: &[u8]) -> Result<T, ProtobufError> {
    T::deserialize(de::ValueDeserializer::whole(message, &whole(bytes))).map_err(ProtobufError::from)
}

/// Returns a whole message, for [`deserializer`].
pub(crate) fn whole(bytes: &[u8]) -> field_reader::Content<'_> {
    field_reader::Content::One(wire::Wire::Bytes(bytes))
}

/// Returns a deserializer of a message, for callers that add members to the object.
pub(crate) fn deserializer<'de>(
    message: &'static Message,
    whole: &field_reader::Content<'de>,
) -> impl serde::Deserializer<'de, Error = BoxedError> {
    de::ValueDeserializer::whole(message, whole)
}

/// Returns the time in a message in the format of JSON, to the second, or `None` if it is not set.
pub(crate) fn time_text(message: &[u8]) -> Result<Option<String>, BoxedError> {
    let Some((seconds, nanos)) = time::read(message)? else { return Ok(None) };
    time::text(seconds, nanos, false, &mut [0; 27]).map(|text| Some(text.to_owned()))
}

/// Encodes an object as a message without an envelope: fields by number, map keys in alphabetical order.
pub fn to_vec<T: Serialize + ?Sized>(message: &'static Message, value: &T) -> Result<Vec<u8>, ProtobufError> {
    ser::to_vec(message, value).map_err(ProtobufError::from)
}

/// Appends the JSON of a message. `type_meta` is the API version and the kind; without it the JSON states neither. After an error the
/// appended bytes are incomplete.
pub fn write_json(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<(&str, &str)>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    json::put_message(message, bytes, type_meta, 0, out).map_err(ProtobufError::from)
}
