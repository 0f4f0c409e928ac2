//! Responses in Kubernetes' protobuf: the envelope around a message, lists, and the frames of a watch (BIN-1, BIN-2).
//!
//! [`evenkeel_core::protobuf`] encodes the messages of kinds; this module adds what surrounds them.

mod text;

use bytes::Bytes;
use evenkeel_core::ProtobufError;
use evenkeel_core::protobuf::{Message, to_vec};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::text::JsonText;

/// The first bytes of every body.
const PREFIX: &[u8] = b"k8s\0";
/// The last fields of an envelope, both empty: content encoding and content type.
pub(crate) const TAIL: &[u8] = b"\x1a\0\x22\0";
/// The size of the length before a frame of a watch.
pub(crate) const FRAME_HEADER: usize = 4;

/// An error of the protobuf encoding.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unwritable {
    #[error("no protobuf message is known for the kind {kind:?} of {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("{kind} of {api_version}: {source}")]
    Message { api_version: String, kind: String, source: ProtobufError },
}

/// Returns whether objects of a kind, and lists of them, have a protobuf form.
pub(crate) fn has_form(api_version: &str, kind: &str) -> bool {
    message_of(api_version, kind).is_some()
}

fn message_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    // The two versions have the same messages.
    Message::of_kind(if api_version == "meta.k8s.io/v1beta1" { "meta.k8s.io/v1" } else { api_version }, kind)
}

/// Encodes an object as a message without an envelope.
pub(crate) fn message(api_version: &str, kind: &str, object: &impl Serialize) -> Result<Vec<u8>, Unwritable> {
    let Some(message) = message_of(api_version, kind) else {
        return Err(Unwritable::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    to_vec(message, object).map_err(|source| Unwritable::Message {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        source,
    })
}

/// Returns a message in its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(envelope_size(api_version, kind, message.len()));
    put_envelope(&mut out, api_version, kind, message);
    out.into()
}

/// Encodes an object that names its kind and version, in an envelope.
pub(crate) fn object(object: &Value) -> Result<Bytes, Unwritable> {
    let (api_version, kind) = names(object);
    Ok(envelope(api_version, kind, &message(api_version, kind, object)?))
}

/// Returns a frame of a watch: its length, the type of the event, and the object in an envelope of its own.
pub(crate) fn event(event: &str, api_version: &str, kind: &str, message: &[u8]) -> Bytes {
    let raw = envelope_size(api_version, kind, message.len());
    let object = field_size(raw);
    let size = field_size(event.len()) + field_size(object);
    let mut out = Vec::with_capacity(FRAME_HEADER + size);
    // Objects are far below 4 GiB: a request is at most a few MiB.
    out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    put_field(&mut out, 1, event.as_bytes());
    put_header(&mut out, 2, object);
    put_header(&mut out, 1, raw);
    put_envelope(&mut out, api_version, kind, message);
    out.into()
}

/// Returns a frame with an object that names its kind and version.
pub(crate) fn event_of(name: &str, object: &Value) -> Result<Bytes, Unwritable> {
    let (api_version, kind) = names(object);
    Ok(event(name, api_version, kind, &message(api_version, kind, object)?))
}

/// Returns the start of a list up to its first item. `items` is the sum of [`item_size`] over all items, because the
/// envelope starts with the length of its content.
pub(crate) fn list_head(api_version: &str, kind: &str, metadata: &Value, items: usize) -> Result<Vec<u8>, Unwritable> {
    // Metadata is the first field of every list, and items are the second.
    let head = message(api_version, kind, &json!({"metadata": metadata}))?;
    let mut out = Vec::new();
    put_envelope_head(&mut out, api_version, kind, head.len() + items);
    out.extend_from_slice(&head);
    Ok(out)
}

/// Returns the size in a list of an item of this length.
pub(crate) fn item_size(length: usize) -> usize {
    field_size(length)
}

/// Appends an item to a list.
pub(crate) fn put_item(out: &mut Vec<u8>, message: &[u8]) {
    put_field(out, 2, message);
}

fn names(object: &Value) -> (&str, &str) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn envelope_size(api_version: &str, kind: &str, message: usize) -> usize {
    let names = field_size(api_version.len()) + field_size(kind.len());
    PREFIX.len() + field_size(names) + field_size(message) + TAIL.len()
}

fn put_envelope(out: &mut Vec<u8>, api_version: &str, kind: &str, message: &[u8]) {
    put_envelope_head(out, api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(TAIL);
}

/// Appends the envelope up to a message of this length.
fn put_envelope_head(out: &mut Vec<u8>, api_version: &str, kind: &str, message: usize) {
    out.extend_from_slice(PREFIX);
    put_header(out, 1, field_size(api_version.len()) + field_size(kind.len()));
    put_field(out, 1, api_version.as_bytes());
    put_field(out, 2, kind.as_bytes());
    put_header(out, 2, message);
}

fn put_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    put_header(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends tag and length of a field. Field numbers here are below 16, so a tag is one byte.
fn put_header(out: &mut Vec<u8>, number: u8, length: usize) {
    out.push(number << 3 | 2);
    let mut left = length;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Returns the size of a field: tag, length and content.
fn field_size(length: usize) -> usize {
    let bits = usize::BITS - (length | 1).leading_zeros();
    1 + bits.div_ceil(7) as usize + length
}

#[cfg(test)]
mod tests;
