//! [`ProtobufWatchDecoder`]: the events of a protobuf watch.

use std::sync::Arc;

use bytes::Bytes;

use super::buffer::ProtobufBuffer;
use super::{key_in, open_envelope, read_status};
use crate::codec::chunks::StreamSlice;
use crate::codec::watch::check_bookmark;
use crate::codec::{DEFAULT_MAX_ITEM_BYTES, ParsedObject, WatchEventType, json};
use crate::error::{DecodeError, ProtobufError, StreamError, TypeMismatch};
use crate::header::{MetadataField, annotation_in, metadata_of};
use crate::obj::Untyped;
use crate::protobuf::{BoxedError, PREFIX, Reader, bytes_of};
use crate::resource::ResourceInfo;
use crate::stream::WatchEvent;
use crate::version::ResourceVersion;

/// The number of bytes of the length that precedes a frame.
const LENGTH_BYTES: usize = 4;
/// The field number of `ObjectMeta.resourceVersion`.
const RESOURCE_VERSION: u32 = 6;

/// Decodes a protobuf watch.
#[derive(Debug)]
pub(in crate::codec) struct ProtobufWatchDecoder {
    buffer: ProtobufBuffer,
    /// The length of the frame in progress.
    frame: Option<usize>,
}

impl ProtobufWatchDecoder {
    pub(in crate::codec) fn new() -> Self {
        ProtobufWatchDecoder { buffer: ProtobufBuffer::new(DEFAULT_MAX_ITEM_BYTES), frame: None }
    }

    pub(in crate::codec) fn set_limit(&mut self, bytes: usize) {
        self.buffer.limit = bytes;
    }

    pub(in crate::codec) fn push(&mut self, chunk: Bytes) {
        self.buffer.push(chunk);
    }

    pub(in crate::codec) fn next_event(
        &mut self,
        info: &Arc<ResourceInfo>,
    ) -> Result<Option<WatchEvent<Untyped>>, StreamError> {
        if self.buffer.is_closed() {
            return Ok(None);
        }
        let frame = self.next_frame().inspect_err(|_| self.buffer.close())?;
        frame.map(|frame| read_event(&frame, info)).transpose()
    }

    fn next_frame(&mut self) -> Result<Option<StreamSlice>, StreamError> {
        let length = match self.frame {
            Some(length) => length,
            None => {
                let Some(prefix) = self.buffer.next_slice(LENGTH_BYTES) else { return Ok(None) };
                let length = prefix.bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
                *self.frame.insert(self.buffer.check(length, prefix.offset, || "event".into())?)
            }
        };
        let frame = self.buffer.next_slice(length);
        if frame.is_some() {
            self.frame = None;
        }
        // A frame starts at its length.
        Ok(frame.map(|frame| StreamSlice { offset: frame.offset - LENGTH_BYTES as u64, ..frame }))
    }

    pub(in crate::codec) fn finish(mut self) -> Result<(), StreamError> {
        if self.buffer.is_closed() {
            return Err(StreamError::Closed);
        }
        if self.frame.is_some() || !self.buffer.is_empty() {
            return Err(StreamError::Truncated { offset: self.buffer.offset(), path: "an event".into() });
        }
        Ok(())
    }
}

fn read_event(frame: &StreamSlice, info: &Arc<ResourceInfo>) -> Result<WatchEvent<Untyped>, StreamError> {
    let kind = info.kind();
    let (event, object) = event_fields(&frame.bytes)
        .map_err(|error| object_error(frame, &[], ProtobufError::from(error).into(), kind))?;
    let event = String::from_utf8_lossy(event);
    if let Some(event) = WatchEventType::of(&event) {
        return match read_object(frame.bytes.slice_ref(object)) {
            Ok(object) => Ok(WatchEvent::of(event, info, object)),
            Err(source) => Err(object_error(frame, object, source, kind)),
        };
    }
    match &*event {
        "BOOKMARK" => read_bookmark(object, info).map_err(|source| object_error(frame, object, source, kind)),
        "ERROR" => {
            let status = if is_json(object) {
                serde_json::from_slice(object).map_err(|error| TypeMismatch::new(&error))
            } else {
                read_status(object)
            };
            status
                .map(|status| WatchEvent::Error(Box::new(status)))
                .map_err(|source| StreamError::InvalidStatus { offset: frame.offset, source })
        }
        other => {
            let event = other.chars().take(64).collect();
            Err(StreamError::UnknownEvent { offset: frame.offset, event })
        }
    }
}

/// Returns the type of an event, and its object in its envelope.
fn event_fields(frame: &[u8]) -> Result<(&[u8], &[u8]), BoxedError> {
    let (mut event, mut object) = (&[][..], &[][..]);
    let mut reader = Reader::new(frame);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => event = value.bytes().map_err(|error| error.in_field("type"))?,
            2 => {
                let raw = value.bytes().and_then(|extension| bytes_of(extension, 1));
                object = raw.map_err(|error| error.in_field("object"))?;
            }
            _ => {}
        }
    }
    Ok((event, object))
}

/// Reads an object that is embedded in another message: in an envelope of its own, or as JSON (PB-027).
fn read_object(object: Bytes) -> Result<ParsedObject, DecodeError> {
    if is_json(&object) { json::decode(object) } else { super::decode(object) }
}

fn is_json(object: &[u8]) -> bool {
    !object.starts_with(PREFIX) && object.trim_ascii_start().first() == Some(&b'{')
}

fn read_bookmark(object: &[u8], info: &ResourceInfo) -> Result<WatchEvent<Untyped>, DecodeError> {
    if is_json(object) {
        return json::read_bookmark(std::str::from_utf8(object).unwrap_or_default(), info);
    }
    let content = open_envelope(object)?;
    check_bookmark(content.stated.kind, content.stated.api_version, info)?;
    let MetadataField::OfObject(metadata) = metadata_of(content.message, content.raw)? else {
        return Err(DecodeError::NoMetadata { kind: Some(content.stated.kind.into()) });
    };
    let version = bytes_of(metadata, RESOURCE_VERSION).map_err(ProtobufError::from)?;
    let initial_events_end = annotation_in(metadata, "k8s.io/initial-events-end")?;
    Ok(WatchEvent::Bookmark {
        resource_version: ResourceVersion::new(&String::from_utf8_lossy(version)),
        initial_events_end: initial_events_end.as_deref() == Some("true"),
    })
}

#[cold]
fn object_error(frame: &StreamSlice, object: &[u8], source: DecodeError, kind: &str) -> StreamError {
    let key = if is_json(object) {
        json::key_in(object, &[])
    } else {
        open_envelope(object).ok().and_then(|content| key_in(content.message, content.raw))
    };
    StreamError::Object { offset: frame.offset, item: None, key, source: source.of_kind(kind) }
}
