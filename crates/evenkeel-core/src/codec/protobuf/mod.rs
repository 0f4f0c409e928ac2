//! Objects, lists and watches in Kubernetes protobuf.

mod buffer;
mod list;
mod watch;

use bytes::Bytes;

pub(super) use list::ProtobufListDecoder;
pub(super) use watch::ProtobufWatchDecoder;

use super::{ApiKind, Codec, ParsedObject};
use crate::error::{DecodeError, EncodeError, ProtobufError, StreamError, TypeMismatch};
use crate::header::{Header, MetadataField, metadata_of};
use crate::key::ObjectKey;
use crate::obj::Payload;
use crate::protobuf::{
    BoxedError, Cardinality, FieldKind, Message, Reader, from_slice, to_vec, unwrap_envelope, wrap_envelope,
};
use crate::status::Status;

pub(super) fn supports(kind: ApiKind<'_>) -> bool {
    Message::of_kind(kind.api_version, kind.kind).is_some()
}

pub(super) fn encode(value: &dyn erased_serde::Serialize, kind: ApiKind<'_>) -> Result<Vec<u8>, EncodeError> {
    let media_type = Codec::Protobuf.media_type();
    let message = Message::of_kind(kind.api_version, kind.kind)
        .ok_or_else(|| EncodeError::unknown_kind(media_type, &kind.to_string()))?;
    let raw = to_vec(message, value).map_err(|error| EncodeError::protobuf(media_type, error))?;
    Ok(wrap_envelope(kind.api_version, kind.kind, &raw))
}

impl<'a> ApiKind<'a> {
    /// Reads the `TypeMeta` of an envelope, which must be complete.
    fn from_type_meta(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut stated = ApiKind { api_version: "", kind: "" };
        let text = |bytes, name| std::str::from_utf8(bytes).map_err(|_| BoxedError::unexpected("UTF-8").in_field(name));
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.next()? {
            let value = value.bytes();
            match number {
                1 => stated.api_version = text(value?, "apiVersion")?,
                2 => stated.kind = text(value?, "kind")?,
                _ => {}
            }
        }
        stated.complete()
    }

    /// Returns an error if one of them is missing, as Go does.
    fn complete(self) -> Result<Self, ProtobufError> {
        for (text, path, expected) in [
            (self.kind, "kind", "the kind of the object"),
            (self.api_version, "apiVersion", "the version of the object"),
        ] {
            if text.is_empty() {
                return Err(ProtobufError::Unexpected { path: path.into(), expected });
            }
        }
        Ok(self)
    }
}

/// The contents of an envelope.
struct EnvelopeContent<'a> {
    stated: ApiKind<'a>,
    message: &'static Message,
    raw: &'a [u8],
}

fn open_envelope(bytes: &[u8]) -> Result<EnvelopeContent<'_>, DecodeError> {
    let envelope = unwrap_envelope(bytes)?;
    let stated = ApiKind { api_version: envelope.api_version, kind: envelope.kind }.complete()?;
    let message = Message::of_kind(stated.api_version, stated.kind)
        .ok_or_else(|| DecodeError::UnknownKind { kind: stated.to_string().into() })?;
    Ok(EnvelopeContent { stated, message, raw: envelope.raw })
}

pub(super) fn decode(bytes: Bytes) -> Result<ParsedObject, DecodeError> {
    let EnvelopeContent { stated, message, raw } = open_envelope(&bytes)?;
    let header = Header::of_protobuf(message, raw, Some(stated.kind), Some(stated.api_version))
        .and_then(Header::named)
        .map_err(|error| error.of_kind(stated.kind))?;
    let payload = Payload::protobuf(bytes.slice_ref(raw), message);
    Ok(ParsedObject { header, payload })
}

/// Reads a `Status` that states its kind.
pub(super) fn read_status(bytes: &[u8]) -> Result<Status, TypeMismatch> {
    let content = open_envelope(bytes).map_err(|error| TypeMismatch::of(&error))?;
    if (content.stated.api_version, content.stated.kind) != ("v1", "Status") {
        return Err(TypeMismatch::of(&format!("it is {}", content.stated)));
    }
    from_slice(content.message, content.raw).map_err(|error| TypeMismatch::of(&error))
}

/// Returns the message of the items of a list, or `None` if the message is no list.
fn item_of(list: &'static Message) -> Option<&'static Message> {
    let items = list.named("items")?.field;
    let is_list = items.number == 2 && items.cardinality == Cardinality::List && items.of.kind == FieldKind::Message;
    (is_list && list.name().ends_with("List")).then(|| items.of.message())
}

/// Returns the key of a malformed object, if it can be found.
fn key_in(message: &'static Message, bytes: &[u8]) -> Option<Box<ObjectKey>> {
    let MetadataField::OfObject(metadata) = metadata_of(message, bytes).ok()? else { return None };
    let (mut name, mut namespace) = (&[][..], &[][..]);
    let mut reader = Reader::new(metadata);
    // The fields before the malformed one are enough.
    while let Ok(Some((number, value))) = reader.next() {
        match number {
            1 => name = value.bytes().unwrap_or_default(),
            3 => namespace = value.bytes().unwrap_or_default(),
            _ => {}
        }
    }
    let key = ObjectKey::new(Some(&String::from_utf8_lossy(namespace)), &String::from_utf8_lossy(name));
    (!name.is_empty()).then(|| Box::new(key))
}

#[cold]
fn malformed(offset: u64, source: ProtobufError) -> StreamError {
    StreamError::Protobuf { offset, source }
}

#[cfg(test)]
mod tests;
