//! [`Protobuf`]: objects as Kubernetes protobuf.

mod events;
mod feed;
mod items;

use bytes::Bytes;

use super::{ApiKind, Codec, EncodeError, EventDecoder, ItemDecoder, Parsed, Payload, Problem};
use crate::decode::{DecodeError, Misfit};
use crate::header::{Header, Metadata, metadata_of};
use crate::key::ObjectKey;
use crate::protobuf::{
    Cardinality, Failure, Kind, Message, ProtobufError, Reader, from_slice, to_vec, unwrap_envelope, wrap,
};
use crate::status::Status;
use crate::stream::{Malformation, StreamError};

/// Objects as Kubernetes protobuf: `application/vnd.kubernetes.protobuf`.
///
/// It knows the kinds that are built into Kubernetes and their lists; for anything else there is [`Json`](super::Json).
///
/// ```
/// use evenkeel_core::codec::{ApiKind, Codec, Protobuf};
///
/// assert!(Protobuf.knows(ApiKind { api_version: "v1", kind: "Pod" }));
/// assert!(!Protobuf.knows(ApiKind { api_version: "stable.example.com/v1", kind: "CronTab" }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protobuf;

impl Protobuf {
    /// `application/vnd.kubernetes.protobuf`.
    pub const MEDIA_TYPE: &'static str = "application/vnd.kubernetes.protobuf";
}

impl Codec for Protobuf {
    fn media_type(&self) -> &'static str {
        Protobuf::MEDIA_TYPE
    }

    fn knows(&self, kind: ApiKind<'_>) -> bool {
        Message::of_kind(kind.api_version, kind.kind).is_some()
    }

    fn encode(&self, value: &dyn erased_serde::Serialize, kind: ApiKind<'_>) -> Result<Vec<u8>, EncodeError> {
        let failed = |problem| EncodeError { media_type: Protobuf::MEDIA_TYPE, problem };
        let message = Message::of_kind(kind.api_version, kind.kind)
            .ok_or_else(|| failed(Problem::UnknownKind(kind.to_string().into())))?;
        let raw = to_vec(message, value).map_err(|error| failed(Problem::Protobuf(error)))?;
        Ok(wrap(kind.api_version, kind.kind, &raw))
    }

    fn decode(&self, bytes: Bytes) -> Result<Parsed, DecodeError> {
        decode(bytes)
    }

    fn decode_status(&self, bytes: &[u8]) -> Option<Status> {
        read_status(bytes).ok()
    }

    fn items(&self) -> Box<dyn ItemDecoder> {
        Box::new(items::ProtobufItems::new())
    }

    fn events(&self) -> Box<dyn EventDecoder> {
        Box::new(events::ProtobufEvents::new())
    }
}

impl<'a> ApiKind<'a> {
    /// Reads the `TypeMeta` of an envelope. All of it has to be there.
    fn from_type_meta(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut stated = ApiKind { api_version: "", kind: "" };
        let text = |bytes, name| std::str::from_utf8(bytes).map_err(|_| Failure::unexpected("UTF-8").in_field(name));
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

    /// Go takes no envelope that leaves one of them out.
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

/// An object out of its envelope.
struct Open<'a> {
    stated: ApiKind<'a>,
    message: &'static Message,
    raw: &'a [u8],
}

fn open(bytes: &[u8]) -> Result<Open<'_>, DecodeError> {
    let envelope = unwrap_envelope(bytes)?;
    let stated = ApiKind { api_version: envelope.api_version, kind: envelope.kind }.complete()?;
    let message = Message::of_kind(stated.api_version, stated.kind)
        .ok_or_else(|| DecodeError::UnknownKind { kind: stated.to_string().into() })?;
    Ok(Open { stated, message, raw: envelope.raw })
}

fn decode(bytes: Bytes) -> Result<Parsed, DecodeError> {
    let Open { stated, message, raw } = open(&bytes)?;
    let header = Header::of_protobuf(message, raw, Some(stated.kind), Some(stated.api_version))
        .and_then(Header::named)
        .map_err(|error| error.of_kind(stated.kind))?;
    let payload = Payload::protobuf(bytes.slice_ref(raw), message);
    Ok(Parsed { header, payload })
}

/// Reads a `Status` that says so.
fn read_status(bytes: &[u8]) -> Result<Status, Misfit> {
    let opened = open(bytes).map_err(|error| Misfit::of(&error))?;
    if (opened.stated.api_version, opened.stated.kind) != ("v1", "Status") {
        return Err(Misfit::of(&format!("it is {}", opened.stated)));
    }
    from_slice(opened.message, opened.raw).map_err(|error| Misfit::of(&error))
}

/// The message of the items of a list; `None` if it is no list.
fn item_of(list: &'static Message) -> Option<&'static Message> {
    let items = list.named("items")?.field;
    let is_list = items.number == 2 && items.cardinality == Cardinality::List && items.of.kind == Kind::Message;
    (is_list && list.name().ends_with("List")).then(|| items.of.message())
}

/// The key of an object that cannot be read, as far as it can.
fn key_in(message: &'static Message, bytes: &[u8]) -> Option<Box<ObjectKey>> {
    let Metadata::OfObject(metadata) = metadata_of(message, bytes).ok()? else { return None };
    let (mut name, mut namespace) = (&[][..], &[][..]);
    let mut reader = Reader::new(metadata);
    // What stands before the fault is good enough.
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
    StreamError::Malformed { source: Malformation::Protobuf { offset, source } }
}

#[cfg(test)]
mod tests;
