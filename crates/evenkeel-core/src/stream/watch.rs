//! [`WatchDecoder`]: a watch, event by event, as it comes in.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::error::StreamError;
use crate::codec::{Change, Codec, Event, EventDecoder, Json};
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
/// clean end from one in the middle of an event. In JSON, events are values one after the other, with any space between
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
    events: Box<dyn EventDecoder>,
    info: Arc<ResourceInfo>,
    kind: PhantomData<fn() -> K>,
}

impl<K> WatchDecoder<K> {
    /// A decoder for a JSON watch of this kind.
    pub fn new(info: Arc<ResourceInfo>) -> Self {
        Self::with_codec(&Json, info)
    }

    /// A decoder for a watch of this kind in another form.
    pub fn with_codec(codec: &dyn Codec, info: Arc<ResourceInfo>) -> Self {
        WatchDecoder { events: codec.events(), info, kind: PhantomData }
    }

    /// The same decoder with another limit on the size of an event
    /// ([`DEFAULT_MAX_ITEM_BYTES`](super::DEFAULT_MAX_ITEM_BYTES)).
    pub fn max_event_bytes(mut self, limit: usize) -> Self {
        self.events.set_limit(limit);
        self
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        self.events.push(chunk);
    }

    /// The next event, if all of it is there.
    pub fn next_event(&mut self) -> Result<Option<WatchEvent<K>>, StreamError> {
        let Some(event) = self.events.next_event(self.info.kind())? else {
            return Ok(None);
        };
        let object = |parsed| Obj::new(&self.info, parsed);
        Ok(Some(match event {
            Event::Object(Change::Added, parsed) => WatchEvent::Added(object(parsed)),
            Event::Object(Change::Modified, parsed) => WatchEvent::Modified(object(parsed)),
            Event::Object(Change::Deleted, parsed) => WatchEvent::Deleted(object(parsed)),
            Event::Bookmark { resource_version, initial_events_end } => {
                WatchEvent::Bookmark { resource_version, initial_events_end }
            }
            Event::Error(status) => WatchEvent::Error(status),
        }))
    }

    /// Whether the stream, which has ended, ended between two events. Ask for all events first: what was pushed and not
    /// asked for counts as cut off.
    pub fn finish(self) -> Result<(), StreamError> {
        self.events.finish()
    }
}
