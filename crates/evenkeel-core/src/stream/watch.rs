//! [`WatchDecoder`]: a watch, event by event, as it comes in.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::error::StreamError;
use super::feed::{Feed, Piece};
use crate::decode::{DecodeError, Misfit};
use crate::header::Header;
use crate::json::{JsonError, JsonFault, JsonValue, Scanner};
use crate::obj::Obj;
use crate::resource::ResourceInfo;
use crate::status::Status;
use crate::version::ResourceVersion;

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent<K> {
    /// An object has come to be, or has come into view.
    Added(Obj<K>),
    /// An object has changed.
    Modified(Obj<K>),
    /// An object has gone, or has gone out of view; this is its last state.
    Deleted(Obj<K>),
    /// Nothing has happened up to this version of the store.
    Bookmark {
        /// The version.
        resource_version: ResourceVersion,
        /// Whether all objects that were there when the watch began have now been sent.
        initial_events_end: bool,
    },
    /// The server ends the watch, and why.
    Error(Box<Status>),
}

/// Takes a watch stream apart as its bytes arrive.
///
/// Push a chunk, then ask for events until there are none; when the body has ended, [`finish`](Self::finish) tells a
/// clean end from one in the middle of an event. Events are JSON values one after the other, with any space between
/// them or none.
///
/// An event that makes no sense is an error that is not [fatal](StreamError::is_fatal): the events after it still come.
/// After a fatal error nothing comes any more.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::{ResourceInfo, WatchDecoder, WatchEvent};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut decoder = WatchDecoder::<Pod>::new(Arc::new(ResourceInfo::of::<Pod>()));
/// decoder.push(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}{"type":"BOOK"#.into());
/// assert!(matches!(decoder.next_event()?, Some(WatchEvent::Added(pod)) if pod.key().name() == "a"));
/// assert!(decoder.next_event()?.is_none());
/// assert!(decoder.finish().is_err(), "the bookmark was cut off");
/// # Ok::<(), evenkeel_core::StreamError>(())
/// ```
#[derive(Debug)]
pub struct WatchDecoder<K> {
    events: EventDecoder,
    info: Arc<ResourceInfo>,
    kind: PhantomData<fn() -> K>,
}

impl<K> WatchDecoder<K> {
    /// A decoder for a watch of this kind.
    pub fn new(info: Arc<ResourceInfo>) -> Self {
        let feed = Feed::new(super::DEFAULT_MAX_ITEM_BYTES);
        WatchDecoder { events: EventDecoder { feed }, info, kind: PhantomData }
    }

    /// The same decoder with another limit on the size of an event
    /// ([`DEFAULT_MAX_ITEM_BYTES`](super::DEFAULT_MAX_ITEM_BYTES)).
    pub fn max_event_bytes(mut self, limit: usize) -> Self {
        self.events.feed.limit = limit;
        self
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        self.events.feed.push(chunk);
    }

    /// The next event, if all of it is there.
    pub fn next_event(&mut self) -> Result<Option<WatchEvent<K>>, StreamError> {
        let Some((event, offset)) = self.events.next_event(self.info.kind())? else {
            return Ok(None);
        };
        let (verb, header, bytes) = match event {
            Event::Object(verb, header, bytes) => (verb, header, bytes),
            Event::Bookmark { resource_version, initial_events_end } => {
                return Ok(Some(WatchEvent::Bookmark { resource_version, initial_events_end }));
            }
            Event::Error(status) => return Ok(Some(WatchEvent::Error(status))),
        };
        let obj = Obj::from_parts(&self.info, header, bytes)
            .map_err(|source| StreamError::Object { offset, source: source.of_kind(self.info.kind()) })?;
        Ok(Some(match verb {
            Verb::Added => WatchEvent::Added(obj),
            Verb::Modified => WatchEvent::Modified(obj),
            Verb::Deleted => WatchEvent::Deleted(obj),
        }))
    }

    /// Whether the stream, which has ended, ended between two events. Ask for all events first: what was pushed and not
    /// asked for counts as cut off.
    pub fn finish(mut self) -> Result<(), StreamError> {
        let feed = &mut self.events.feed;
        if feed.is_given_up() {
            return Err(StreamError::GivenUp);
        }
        if feed.is_open() || feed.peek().is_some() {
            return Err(StreamError::Truncated { offset: feed.offset(), path: "an event".into() });
        }
        Ok(())
    }
}

/// A [`WatchEvent`] that does not know the type of its object.
enum Event {
    Object(Verb, Header, Bytes),
    Bookmark { resource_version: ResourceVersion, initial_events_end: bool },
    Error(Box<Status>),
}

/// What happened to an object.
#[derive(Clone, Copy)]
enum Verb {
    Added,
    Modified,
    Deleted,
}

impl Verb {
    fn of(event: &str) -> Option<Self> {
        match event {
            "ADDED" => Some(Verb::Added),
            "MODIFIED" => Some(Verb::Modified),
            "DELETED" => Some(Verb::Deleted),
            _ => None,
        }
    }
}

/// The part of the decoder that does not depend on the type of the objects.
#[derive(Debug)]
struct EventDecoder {
    feed: Feed,
}

impl EventDecoder {
    /// The next event and where it starts.
    fn next_event(&mut self, kind: &str) -> Result<Option<(Event, u64)>, StreamError> {
        let frame = self.next_frame().inspect_err(|_| self.feed.give_up())?;
        let Some(frame) = frame else { return Ok(None) };
        let event = read_event(&frame, kind)?;
        Ok(Some((event, frame.offset)))
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

fn read_event(frame: &Piece, kind: &str) -> Result<Event, StreamError> {
    let parts = Parts::read(&frame.bytes).map_err(|source| object_error(frame, source.into(), kind))?;
    let event = parts.event.as_deref().unwrap_or_default();
    let object = parts.object.unwrap_or_default();
    if let Some(verb) = Verb::of(event) {
        let bytes = frame.bytes.slice_ref(object.as_bytes());
        let header = parts.header.unwrap_or_else(|| {
            // The object came before its type, so its header is only read now.
            Header::from_json(&bytes).map_err(|source| source.within(parts.start as u64, "object"))
        });
        let header = header.map_err(|source| object_error(frame, source, kind))?;
        return Ok(Event::Object(verb, header, bytes));
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

fn read_bookmark(object: &str) -> Event {
    let text = |path| JsonValue::at_path(object, path).and_then(|value| value.as_str());
    let resource_version = text("metadata.resourceVersion").unwrap_or_default();
    let initial_events_end = text("metadata.annotations[k8s.io/initial-events-end]");
    Event::Bookmark {
        resource_version: ResourceVersion::new(&resource_version),
        initial_events_end: initial_events_end.as_deref() == Some("true"),
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
        let text = scanner.clone();
        let mut parts = Parts::default();
        scanner.object(|scanner, member| {
            match member {
                "type" if parts.event.is_some() => return Err(scanner.fault(JsonFault::DuplicateMember)),
                "object" if parts.object.is_some() => return Err(scanner.fault(JsonFault::DuplicateMember)),
                "type" => parts.event = Some(scanner.string()?),
                "object" => {
                    parts.start = scanner.offset();
                    if parts.event.as_deref().and_then(Verb::of).is_some() {
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
        scanner.end()?;
        Ok(parts)
    }
}

#[cold]
fn object_error(frame: &Piece, source: DecodeError, kind: &str) -> StreamError {
    StreamError::Object { offset: frame.offset, source: source.of_kind(kind).within(frame.offset, "") }
}
