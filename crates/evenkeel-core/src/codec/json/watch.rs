//! [`JsonWatchDecoder`]: the events of a JSON watch.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_base::planted::{Defect, is_planted};

use super::buffer::JsonBuffer;
use crate::codec::chunks::StreamSlice;
use crate::codec::watch::check_bookmark;
use crate::codec::{DEFAULT_MAX_ITEM_BYTES, ParsedObject, WatchEventType};
use crate::error::{DecodeError, StreamError, TypeMismatch};
use crate::header::Header;
use crate::json::{JsonError, JsonErrorKind, Scanner};
use crate::obj::{Payload, Untyped};
use crate::resource::ResourceInfo;
use crate::stream::WatchEvent;
use crate::version::ResourceVersion;

/// Decodes a JSON watch.
#[derive(Debug)]
pub(in crate::codec) struct JsonWatchDecoder {
    buffer: JsonBuffer,
}

impl JsonWatchDecoder {
    pub(in crate::codec) fn new() -> Self {
        JsonWatchDecoder { buffer: JsonBuffer::new(DEFAULT_MAX_ITEM_BYTES) }
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
        if let Some(((event, header, object), frame)) = self.buffer.read_in_place(read_object_event) {
            let payload = Payload::json(frame.bytes.slice(object));
            return Ok(Some(WatchEvent::of(event, info, ParsedObject { header, payload })));
        }
        let frame = self.next_frame().inspect_err(|_| self.buffer.close())?;
        frame.map(|frame| read_event(&frame, info)).transpose()
    }

    fn next_frame(&mut self) -> Result<Option<StreamSlice>, StreamError> {
        if !self.buffer.in_value() {
            match self.buffer.peek() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(_) => return Err(self.buffer.unexpected("", "an event")),
            }
        }
        self.buffer.next_value(|| "event".into())
    }

    /// Returns the resource version that the event in progress states, as far as it has arrived.
    #[cfg(planted)]
    pub(in crate::codec) fn partial_version(&self) -> Option<ResourceVersion> {
        let text = String::from_utf8_lossy(self.buffer.partial());
        let (_, version) = text.split_once("\"resourceVersion\":\"")?;
        version.split_once('"').map(|(version, _)| ResourceVersion::new(version))
    }

    pub(in crate::codec) fn finish(mut self) -> Result<(), StreamError> {
        let buffer = &mut self.buffer;
        if buffer.is_closed() {
            return Err(StreamError::Closed);
        }
        if buffer.in_value() || buffer.peek().is_some() {
            return Err(StreamError::Truncated { offset: buffer.offset(), path: "an event".into() });
        }
        Ok(())
    }
}

/// The type of an event, the header of its object, and the range of the object in the event.
type ObjectEvent = (WatchEventType, Header, Range<usize>);

/// Reads the event at the start of a text, and returns it with its length. Returns `None` for a bookmark, an error, and anything
/// out of the ordinary: [`read_event`] handles those.
fn read_object_event(text: &str) -> Option<(ObjectEvent, usize)> {
    let mut scanner = Scanner::probe(text);
    let members = EventMembers::scan(&mut scanner).ok()?;
    let event = WatchEventType::of(&members.event?)?;
    let header = members.header?.and_then(Header::named).ok()?;
    let object = members.start..members.start + members.object?.len();
    Some(((event, header, object), scanner.offset()))
}

fn read_event(frame: &StreamSlice, info: &Arc<ResourceInfo>) -> Result<WatchEvent<Untyped>, StreamError> {
    let kind = info.kind();
    let members = EventMembers::read(&frame.bytes).map_err(|source| object_error(frame, source.into(), kind))?;
    let event = members.event.as_deref().unwrap_or_default();
    let object = members.object.unwrap_or_default();
    if let Some(event) = WatchEventType::of(event) {
        let bytes = frame.bytes.slice_ref(object.as_bytes());
        let header = members.header.unwrap_or_else(|| {
            // The object preceded its type, so the scan skipped its header.
            Header::from_json(&bytes).map_err(|source| source.within(members.start as u64, "object"))
        });
        let header = header.and_then(Header::named).map_err(|source| object_error(frame, source, kind))?;
        return Ok(WatchEvent::of(event, info, ParsedObject { header, payload: Payload::json(bytes) }));
    }
    match event {
        "BOOKMARK" if is_planted(Defect::BookmarkStored) => {
            let bytes = frame.bytes.slice_ref(object.as_bytes());
            let header = Header::from_json(&bytes).map_err(|source| object_error(frame, source, kind))?;
            let object = ParsedObject { header, payload: Payload::json(bytes) };
            Ok(WatchEvent::of(WatchEventType::Modified, info, object))
        }
        "BOOKMARK" => read_bookmark(object, info).map_err(|source| object_error(frame, source, kind)),
        "ERROR" => serde_json::from_str(object)
            .map(WatchEvent::Error)
            .map_err(|error| StreamError::InvalidStatus { offset: frame.offset, source: TypeMismatch::new(&error) }),
        other => {
            let event = other.chars().take(64).collect();
            Err(StreamError::UnknownEvent { offset: frame.offset, event })
        }
    }
}

pub(in crate::codec) fn read_bookmark(object: &str, info: &ResourceInfo) -> Result<WatchEvent<Untyped>, DecodeError> {
    let stated = |member: &str| Scanner::string_at(object, &[member]).unwrap_or_default();
    check_bookmark(&stated("kind"), &stated("apiVersion"), info)?;
    let version = Scanner::string_at(object, &["metadata", "resourceVersion"]);
    let end = Scanner::string_at(object, &["metadata", "annotations", "k8s.io/initial-events-end"]);
    Ok(WatchEvent::Bookmark {
        resource_version: ResourceVersion::new(version.as_deref().unwrap_or_default()),
        initial_events_end: end.as_deref() == Some("true"),
    })
}

/// The members of an event.
#[derive(Default)]
struct EventMembers<'a> {
    event: Option<Cow<'a, str>>,
    object: Option<&'a str>,
    /// The offset of the object in the event.
    start: usize,
    /// The header of the object, if the type preceded the object and is that of an object event.
    header: Option<Result<Header, DecodeError>>,
}

impl<'a> EventMembers<'a> {
    fn read(frame: &'a [u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(frame)?;
        let members = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(members)
    }

    /// Reads the event at the scanner and advances the scanner past it.
    fn scan(scanner: &mut Scanner<'a>) -> Result<Self, JsonError> {
        let text = scanner.clone();
        let mut members = EventMembers::default();
        scanner.object(|scanner, member| {
            match member {
                "type" if members.event.is_some() => return Err(scanner.error(JsonErrorKind::DuplicateMember)),
                "object" if members.object.is_some() => return Err(scanner.error(JsonErrorKind::DuplicateMember)),
                "type" => members.event = Some(scanner.string()?),
                "object" => {
                    members.start = scanner.offset();
                    if members.event.as_deref().and_then(WatchEventType::of).is_some() {
                        match Header::scan(scanner) {
                            Err(DecodeError::Json { source, .. }) => return Err(source),
                            header => members.header = Some(header),
                        }
                    } else {
                        scanner.skip()?;
                    }
                    members.object = Some(text.slice(members.start, scanner.offset()));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(members)
    }
}

#[cold]
fn object_error(frame: &StreamSlice, source: DecodeError, kind: &str) -> StreamError {
    let source = source.of_kind(kind).within(frame.offset, "");
    StreamError::Object { offset: frame.offset, item: None, key: super::key_in(&frame.bytes, &["object"]), source }
}
