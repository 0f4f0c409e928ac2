//! Kubernetes' protobuf, straight into and from the types that read and write JSON.
//!
//! # What it is for
//!
//! The API server speaks protobuf for its own kinds: it is smaller than JSON and takes less time to read. There are no types
//! of its own for it here: a table says how the messages of Kubernetes relate to their JSON, and with it serde's
//! `Deserialize` and `Serialize` of any type that stands for an object, those of `k8s_openapi` first of all, work on
//! protobuf as they do on JSON.
//!
//! ```
//! use evenkeel_core::protobuf::{self, Message};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! let message = Message::of_kind("v1", "ConfigMap").expect("it is a kind of Kubernetes");
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
//! On the wire every object stands in an envelope that says what it is: [`wrap_envelope`] and [`unwrap_envelope`].
//!
//! # What it promises
//!
//! - Whoever reads a message sees what the JSON of the same object shows, and whoever writes one gives the server what its
//!   JSON would. What only JSON can say is an error when it is written, never lost.
//! - `apiVersion` and `kind` are not in messages. Readers do not see them, writers leave them out.
//! - Fields that the table does not know are passed over: they are from a version of Kubernetes that is newer than it.
//! - No bytes make it panic, nest without bound, or take more memory than a small multiple of their number.
//! - Errors name the field, and nothing of its contents.
//!
//! # What it deliberately does not do
//!
//! - It does not know custom resources: for these there is no protobuf, nor is there a [`Message`].
//! - It does not tell an empty list from none: protobuf cannot.

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

pub(crate) use envelope::PREFIX;
pub use envelope::{Envelope, unwrap_envelope, wrap_envelope};
pub(crate) use error::BoxedError;
pub(crate) use field_reader::bytes_of;
pub use table::Message;
pub(crate) use table::{Cardinality, Field, FieldKind};
pub(crate) use wire::{BYTES, Reader, Wire, put_varint, varint_length};

/// How deep messages may nest: as deep as serde_json lets JSON nest, so that no type needs more stack than it does for JSON.
pub const DEPTH_LIMIT: usize = 128;

/// Reads an object from its message, which is what an envelope holds.
pub fn from_slice<T: DeserializeOwned>(message: &'static Message, bytes: &[u8]) -> Result<T, ProtobufError> {
    T::deserialize(de::ValueDeserializer::whole(message, &whole(bytes))).map_err(ProtobufError::from)
}

/// The whole of a message, to be given to [`deserializer`].
pub(crate) fn whole(bytes: &[u8]) -> field_reader::Content<'_> {
    field_reader::Content::One(wire::Wire::Bytes(bytes))
}

/// A deserializer over a message, for those who have more to say of the object than the message does.
pub(crate) fn deserializer<'de>(
    message: &'static Message,
    whole: &field_reader::Content<'de>,
) -> impl serde::Deserializer<'de, Error = BoxedError> {
    de::ValueDeserializer::whole(message, whole)
}

/// The time in a message as JSON has it, to the second; `None` if none is set.
pub(crate) fn time_text(message: &[u8]) -> Result<Option<String>, BoxedError> {
    let Some((seconds, nanos)) = time::read(message)? else { return Ok(None) };
    time::text(seconds, nanos, false, &mut [0; 27]).map(|text| Some(text.to_owned()))
}

/// Writes the message of an object: fields in the order of their numbers, keys in the order of the alphabet.
pub fn to_vec<T: Serialize + ?Sized>(message: &'static Message, value: &T) -> Result<Vec<u8>, ProtobufError> {
    ser::to_vec(message, value).map_err(ProtobufError::from)
}

/// Appends the JSON of a message. `type_meta` is what the object is, API version first, and comes first in the JSON; without
/// it the JSON does not say. After an error, what has been appended is worth nothing.
pub fn write_json(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<(&str, &str)>,
    out: &mut Vec<u8>,
) -> Result<(), ProtobufError> {
    json::put_message(message, bytes, type_meta, 0, out).map_err(ProtobufError::from)
}
