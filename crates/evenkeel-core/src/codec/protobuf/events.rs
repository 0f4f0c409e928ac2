//! [`ProtobufEvents`]: a protobuf watch, event by event, as it comes in.

use bytes::Bytes;

use super::feed::Feed;
use super::{key_in, open, read_status};
use crate::codec::chunks::Piece;
use crate::codec::{Change, Codec, Event, EventDecoder, Json, Parsed, json};
use crate::decode::{DecodeError, Misfit};
use crate::header::{Metadata, annotation_in, metadata_of};
use crate::protobuf::{Failure, PREFIX, ProtobufError, Reader, bytes_of};
use crate::stream::{DEFAULT_MAX_ITEM_BYTES, StreamError};
use crate::version::ResourceVersion;

/// How many bytes tell the length of a frame.
const LENGTH_BYTES: usize = 4;
/// `ObjectMeta.resourceVersion`.
const RESOURCE_VERSION: u32 = 6;

/// A watch that is coming in.
#[derive(Debug)]
pub(super) struct ProtobufEvents {
    feed: Feed,
    /// The length of the frame that is being read.
    frame: Option<usize>,
}

impl ProtobufEvents {
    pub(super) fn new() -> Self {
        ProtobufEvents { feed: Feed::new(DEFAULT_MAX_ITEM_BYTES), frame: None }
    }

    fn next_frame(&mut self) -> Result<Option<Piece>, StreamError> {
        let length = match self.frame {
            Some(length) => length,
            None => {
                let Some(prefix) = self.feed.piece(LENGTH_BYTES) else { return Ok(None) };
                let length = prefix.bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
                *self.frame.insert(self.feed.check(length, prefix.offset, || "event".into())?)
            }
        };
        let frame = self.feed.piece(length);
        if frame.is_some() {
            self.frame = None;
        }
        // Where a frame starts is where its length stands.
        Ok(frame.map(|frame| Piece { offset: frame.offset - LENGTH_BYTES as u64, ..frame }))
    }
}

impl EventDecoder for ProtobufEvents {
    fn set_limit(&mut self, bytes: usize) {
        self.feed.limit = bytes;
    }

    fn push(&mut self, chunk: Bytes) {
        self.feed.push(chunk);
    }

    fn next_event(&mut self, kind: &str) -> Result<Option<Event>, StreamError> {
        if self.feed.is_given_up() {
            return Ok(None);
        }
        let frame = self.next_frame().inspect_err(|_| self.feed.give_up())?;
        frame.map(|frame| read_event(&frame, kind)).transpose()
    }

    fn finish(mut self: Box<Self>) -> Result<(), StreamError> {
        if self.feed.is_given_up() {
            return Err(StreamError::GivenUp);
        }
        if self.frame.is_some() || !self.feed.is_at_rest() {
            return Err(StreamError::Truncated { offset: self.feed.offset(), path: "an event".into() });
        }
        Ok(())
    }
}

fn read_event(frame: &Piece, kind: &str) -> Result<Event, StreamError> {
    let (event, object) =
        parts(&frame.bytes).map_err(|failure| object_error(frame, &[], ProtobufError::from(failure).into(), kind))?;
    let event = String::from_utf8_lossy(event);
    if let Some(change) = Change::of(&event) {
        let parsed = read_object(frame.bytes.slice_ref(object));
        return match parsed {
            Ok(parsed) => Ok(Event::Object(change, parsed)),
            Err(source) => Err(object_error(frame, object, source, kind)),
        };
    }
    match &*event {
        "BOOKMARK" => read_bookmark(object).map_err(|source| object_error(frame, object, source, kind)),
        "ERROR" => {
            let status = if is_json(object) {
                serde_json::from_slice(object).map_err(|error| Misfit::new(&error))
            } else {
                read_status(object)
            };
            status
                .map(|status| Event::Error(Box::new(status)))
                .map_err(|source| StreamError::BadStatus { offset: frame.offset, source })
        }
        other => {
            let event = other.chars().take(64).collect();
            Err(StreamError::UnknownEvent { offset: frame.offset, event })
        }
    }
}

/// The type of an event, and its object in its envelope.
fn parts(frame: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let (mut event, mut object) = (&[][..], &[][..]);
    let mut reader = Reader::new(frame);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => event = value.bytes().map_err(|fault| fault.in_field("type"))?,
            2 => {
                let raw = value.bytes().and_then(|extension| bytes_of(extension, 1));
                object = raw.map_err(|fault| fault.in_field("object"))?;
            }
            _ => {}
        }
    }
    Ok((event, object))
}

/// An object that stands in a message of another kind: in an envelope of its own, or as JSON (PB-027).
fn read_object(object: Bytes) -> Result<Parsed, DecodeError> {
    if is_json(&object) { Json.decode(object) } else { super::decode(object) }
}

fn is_json(object: &[u8]) -> bool {
    !object.starts_with(PREFIX) && object.trim_ascii_start().first() == Some(&b'{')
}

fn read_bookmark(object: &[u8]) -> Result<Event, DecodeError> {
    if is_json(object) {
        return Ok(json::read_bookmark(std::str::from_utf8(object).unwrap_or_default()));
    }
    let opened = open(object)?;
    let Metadata::OfObject(metadata) = metadata_of(opened.message, opened.raw)? else {
        return Err(DecodeError::NoMetadata { kind: Some(opened.stated.kind.into()) });
    };
    let version = bytes_of(metadata, RESOURCE_VERSION).map_err(ProtobufError::from)?;
    let initial_events_end = annotation_in(metadata, "k8s.io/initial-events-end")?;
    Ok(Event::Bookmark {
        resource_version: ResourceVersion::new(&String::from_utf8_lossy(version)),
        initial_events_end: initial_events_end.as_deref() == Some("true"),
    })
}

#[cold]
fn object_error(frame: &Piece, object: &[u8], source: DecodeError, kind: &str) -> StreamError {
    let key = if is_json(object) {
        json::key_in(object, "")
    } else {
        open(object).ok().and_then(|opened| key_in(opened.message, opened.raw))
    };
    StreamError::Object { offset: frame.offset, item: None, key, source: source.of_kind(kind) }
}
