//! Kubernetes' protobuf as a client reads it.

use bytes::{Buf, Bytes, BytesMut};
use evenkeel_core::protobuf::{Message, from_slice, unwrap_envelope};
use serde_json::Value;

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The Accept header of client-go's typed clients.
pub(crate) const BINARY: &str = "application/vnd.kubernetes.protobuf,application/json";
/// The Accept headers of client-go's metadata client, for an object and for a list.
pub(crate) const BINARY_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub(crate) const BINARY_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;\
     g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// An object in its envelope, as JSON.
#[track_caller]
pub(crate) fn object(bytes: &[u8]) -> Value {
    let envelope = unwrap_envelope(bytes).unwrap();
    let message = Message::of_kind(envelope.api_version, envelope.kind).unwrap();
    let mut object: Value = from_slice(message, envelope.raw).unwrap();
    assert!(bytes.ends_with(b"\x1a\0\x22\0"), "the envelope ends like Go's");
    object["kind"] = envelope.kind.into();
    object["apiVersion"] = envelope.api_version.into();
    object
}

/// The first whole frame of a watch, without its length.
pub(crate) fn take_frame(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(*buffer.first_chunk()?) as usize;
    if buffer.len() < length + 4 {
        return None;
    }
    buffer.advance(4);
    Some(buffer.split_to(length).freeze())
}

/// The type and the object of an event.
#[track_caller]
pub(crate) fn event(frame: &[u8]) -> (String, Value) {
    let mut fields = fields(frame);
    assert_eq!(fields.len(), 2, "a type and an object");
    let (raw, kind) = (fields.pop().unwrap(), fields.pop().unwrap());
    assert_eq!((kind.0, raw.0), (1, 2));
    let envelope = self::fields(raw.1);
    assert_eq!((envelope.len(), envelope[0].0), (1, 1));
    (String::from_utf8(kind.1.to_vec()).unwrap(), object(envelope[0].1))
}

/// The fields of a message that has only fields with a length.
#[track_caller]
fn fields(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut fields = Vec::new();
    while let Some((tag, rest)) = bytes.split_first() {
        assert_eq!(tag & 7, 2);
        let digits = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let length = rest[..digits].iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        let (content, rest) = rest[digits..].split_at(length);
        fields.push((tag >> 3, content));
        bytes = rest;
    }
    fields
}
