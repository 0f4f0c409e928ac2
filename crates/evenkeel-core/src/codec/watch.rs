//! [`WatchDecoder`]: the events of a watch, decoded while the response body arrives.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::json::JsonWatchDecoder;
use super::list::MAX_SHOWN;
use super::protobuf::ProtobufWatchDecoder;
use super::{Codec, ParsedObject, WatchEventType};
use crate::error::{DecodeError, StreamError};
use crate::obj::{Obj, Untyped};
use crate::resource::ResourceInfo;
use crate::stream::WatchEvent;
#[cfg(planted)]
use crate::version::ResourceVersion;

impl WatchEvent<Untyped> {
    pub(super) fn of(event: WatchEventType, info: &Arc<ResourceInfo>, object: ParsedObject) -> Self {
        let object = Obj::new(info, object);
        match event {
            WatchEventType::Added => WatchEvent::Added(object),
            WatchEventType::Modified => WatchEvent::Modified(object),
            WatchEventType::Deleted => WatchEvent::Deleted(object),
        }
    }
}

/// Decodes a watch stream as its bytes arrive, in chunks that may be cut anywhere.
///
/// Push a chunk, then call [`next_event`](Self::next_event) until it returns `None`. At the end of the body
/// [`finish`](Self::finish) distinguishes a clean end from one in the middle of an event. JSON events may have any whitespace
/// between them, or none.
///
/// A bookmark of another kind is an error, too; objects state their own kind.
///
/// A malformed event is an error that is not [fatal](StreamError::is_fatal): decoding continues with the next event. After a
/// fatal error the decoder returns nothing more.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::codec::{Codec, WatchDecoder};
/// use evenkeel_core::{ResourceInfo, WatchEvent};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut decoder = WatchDecoder::<Pod>::new(Codec::Json, Arc::new(ResourceInfo::of::<Pod>()));
/// decoder.push(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}{"type":"BOOK"#.into());
/// assert!(matches!(decoder.next_event()?, Some(WatchEvent::Added(pod)) if pod.key().name() == "a"));
/// assert!(decoder.next_event()?.is_none());
/// assert!(decoder.finish().is_err(), "the bookmark was cut off");
/// # Ok::<(), evenkeel_core::StreamError>(())
/// ```
#[derive(Debug)]
pub struct WatchDecoder<K> {
    format: WatchFormat,
    info: Arc<ResourceInfo>,
    kind: PhantomData<fn() -> K>,
}

#[derive(Debug)]
enum WatchFormat {
    Json(JsonWatchDecoder),
    Protobuf(ProtobufWatchDecoder),
}

impl<K> WatchDecoder<K> {
    /// Returns a decoder for a watch of this kind.
    pub fn new(codec: Codec, info: Arc<ResourceInfo>) -> Self {
        let format = match codec {
            Codec::Json => WatchFormat::Json(JsonWatchDecoder::new()),
            Codec::Protobuf => WatchFormat::Protobuf(ProtobufWatchDecoder::new()),
        };
        WatchDecoder { format, info, kind: PhantomData }
    }

    /// Sets the limit on the size of an event ([`DEFAULT_MAX_ITEM_BYTES`](super::DEFAULT_MAX_ITEM_BYTES)).
    pub fn max_event_bytes(mut self, limit: usize) -> Self {
        match &mut self.format {
            WatchFormat::Json(watch) => watch.set_limit(limit),
            WatchFormat::Protobuf(watch) => watch.set_limit(limit),
        }
        self
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.format {
            WatchFormat::Json(watch) => watch.push(chunk),
            WatchFormat::Protobuf(watch) => watch.push(chunk),
        }
    }

    /// Returns the next event, or `None` until more bytes are pushed.
    pub fn next_event(&mut self) -> Result<Option<WatchEvent<K>>, StreamError> {
        let event = match &mut self.format {
            WatchFormat::Json(watch) => watch.next_event(&self.info)?,
            WatchFormat::Protobuf(watch) => watch.next_event(&self.info)?,
        };
        Ok(event.map(WatchEvent::cast))
    }

    /// Returns the resource version that an event in progress states, as far as it has arrived. Protobuf states none.
    #[cfg(planted)]
    pub fn partial_version(&self) -> Option<ResourceVersion> {
        match &self.format {
            WatchFormat::Json(watch) => watch.partial_version(),
            WatchFormat::Protobuf(_) => None,
        }
    }

    /// Checks that the stream ended between two events. Bytes that were pushed and not returned as events count as cut off.
    pub fn finish(self) -> Result<(), StreamError> {
        match self.format {
            WatchFormat::Json(watch) => watch.finish(),
            WatchFormat::Protobuf(watch) => watch.finish(),
        }
    }
}

/// Checks that a bookmark is of the requested kind, as far as it states its kind: one of another kind must not end an initial list.
pub(in crate::codec) fn check_bookmark(kind: &str, api_version: &str, info: &ResourceInfo) -> Result<(), DecodeError> {
    let is_kind = kind.is_empty() || kind == info.kind();
    let is_version = api_version.is_empty() || api_version == info.api_version();
    let is_metadata = kind == "PartialObjectMetadata" && api_version.starts_with("meta.k8s.io/");
    if is_kind && is_version || is_metadata {
        return Ok(());
    }
    let found: String = format!("{api_version} {kind}").escape_debug().take(MAX_SHOWN).collect();
    let expected = format!("{} {}", info.api_version(), info.kind());
    Err(DecodeError::OtherKind { expected: expected.into(), found: found.into() })
}
