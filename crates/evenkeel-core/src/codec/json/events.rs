//! [`JsonEvents`]: a JSON watch, event by event, as it comes in.

use std::ops::Range;

use bytes::Bytes;

use super::feed::Feed;
use crate::codec::chunks::Piece;
use crate::codec::{Change, Event, EventDecoder, Parsed, Payload};
use crate::decode::{DecodeError, Misfit};
use crate::header::Header;
use crate::json::{JsonError, JsonFault, JsonValue, Scanner};
use crate::stream::{DEFAULT_MAX_ITEM_BYTES, StreamError};
use crate::version::ResourceVersion;

/// A watch that is coming in.
#[derive(Debug)]
pub(super) struct JsonEvents {
    feed: Feed,
}

impl JsonEvents {
    pub(super) fn new() -> Self {
        JsonEvents { feed: Feed::new(DEFAULT_MAX_ITEM_BYTES) }
    }

    fn next_frame(&mut self) -> Result<Option<Piece>, StreamError> {
        if !self.feed.is_open() {
            match self.feed.peek() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(_) => return Err(self.feed.unexpected("", "an event")),
            }
        }
        self.feed.value(|| "event".into())
    }
}

impl EventDecoder for JsonEvents {
    fn set_limit(&mut self, bytes: usize) {
        self.feed.limit = bytes;
    }

    fn push(&mut self, chunk: Bytes) {
        self.feed.push(chunk);
    }

    fn next_event(&mut self, kind: &str) -> Result<Option<Event>, StreamError> {
        if let Some(((change, header, object), frame)) = self.feed.in_place(object_of) {
            let payload = Payload::json(frame.bytes.slice(object));
            return Ok(Some(Event::Object(change, Parsed { header, payload })));
        }
        let frame = self.next_frame().inspect_err(|_| self.feed.give_up())?;
        frame.map(|frame| read_event(&frame, kind)).transpose()
    }

    fn finish(mut self: Box<Self>) -> Result<(), StreamError> {
        let feed = &mut self.feed;
        if feed.is_given_up() {
            return Err(StreamError::GivenUp);
        }
        if feed.is_open() || feed.peek().is_some() {
            return Err(StreamError::Truncated { offset: feed.offset(), path: "an event".into() });
        }
        Ok(())
    }
}

/// What happened to an object, its header, and where in the event it stands.
type Happened = (Change, Header, Range<usize>);

/// What happened to the object of the event that a text begins with, its header and where it stands; and how long the event
/// is. `None` for everything that is not as most events are.
fn object_of(text: &str) -> Option<(Happened, usize)> {
    let mut scanner = Scanner::of_str(text);
    let parts = Parts::scan(&mut scanner).ok()?;
    let change = Change::of(&parts.event?)?;
    let header = parts.header?.and_then(Header::named).ok()?;
    let object = parts.start..parts.start + parts.object?.len();
    Some(((change, header, object), scanner.offset()))
}

fn read_event(frame: &Piece, kind: &str) -> Result<Event, StreamError> {
    let parts = Parts::read(&frame.bytes).map_err(|source| object_error(frame, source.into(), kind))?;
    let event = parts.event.as_deref().unwrap_or_default();
    let object = parts.object.unwrap_or_default();
    if let Some(change) = Change::of(event) {
        let bytes = frame.bytes.slice_ref(object.as_bytes());
        let header = parts.header.unwrap_or_else(|| {
            // The object came before its type, so its header is only read now.
            Header::from_json(&bytes).map_err(|source| source.within(parts.start as u64, "object"))
        });
        let header = header.and_then(Header::named).map_err(|source| object_error(frame, source, kind))?;
        return Ok(Event::Object(change, Parsed { header, payload: Payload::json(bytes) }));
    }
    match event {
        "BOOKMARK" => Ok(read_bookmark(object)),
        "ERROR" => serde_json::from_str(object)
            .map(Event::Error)
            .map_err(|error| StreamError::BadStatus { offset: frame.offset, source: Misfit::new(&error) }),
        other => {
            let event = other.chars().take(64).collect();
            Err(StreamError::UnknownEvent { offset: frame.offset, event })
        }
    }
}

pub(crate) fn read_bookmark(object: &str) -> Event {
    let resource_version = JsonValue::at_path(object, "metadata.resourceVersion");
    let initial_events_end = JsonValue::at_path(object, "metadata.annotations[k8s.io/initial-events-end]");
    let version = resource_version.as_ref().and_then(JsonValue::as_str);
    Event::Bookmark {
        resource_version: ResourceVersion::new(version.as_deref().unwrap_or_default()),
        initial_events_end: initial_events_end.is_some_and(|value| value.as_str().as_deref() == Some("true")),
    }
}

/// The members of an event.
#[derive(Default)]
struct Parts<'a> {
    event: Option<std::borrow::Cow<'a, str>>,
    object: Option<&'a str>,
    /// Where the object starts.
    start: usize,
    /// Read in passing if the type came first and says that there is a header to read.
    header: Option<Result<Header, DecodeError>>,
}

impl<'a> Parts<'a> {
    fn read(frame: &'a [u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(frame)?;
        let parts = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(parts)
    }

    /// Reads the event that the scanner stands before, and leaves it behind the event.
    fn scan(scanner: &mut Scanner<'a>) -> Result<Self, JsonError> {
        let text = scanner.clone();
        let mut parts = Parts::default();
        scanner.object(|scanner, member| {
            match member {
                "type" if parts.event.is_some() => return Err(scanner.fault(JsonFault::DuplicateMember)),
                "object" if parts.object.is_some() => return Err(scanner.fault(JsonFault::DuplicateMember)),
                "type" => parts.event = Some(scanner.string()?),
                "object" => {
                    parts.start = scanner.offset();
                    if parts.event.as_deref().and_then(Change::of).is_some() {
                        match Header::scan(scanner) {
                            Err(DecodeError::Json { source, .. }) => return Err(source),
                            header => parts.header = Some(header),
                        }
                    } else {
                        scanner.skip()?;
                    }
                    parts.object = Some(text.slice(parts.start, scanner.offset()));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(parts)
    }
}

#[cold]
fn object_error(frame: &Piece, source: DecodeError, kind: &str) -> StreamError {
    let source = source.of_kind(kind).within(frame.offset, "");
    StreamError::Object { offset: frame.offset, item: None, key: super::key_in(&frame.bytes, "object."), source }
}
