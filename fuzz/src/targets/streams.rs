//! Streams of objects: what a decoder yields does not depend on how the network cut the stream.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::codec::{Codec, ListDecoder, WatchDecoder};
use evenkeel_core::{Obj, ResourceInfo, StreamError, WatchEvent};
use k8s_openapi::api::core::v1::Pod;

use crate::budget::{DECODER, within_and_reserved};
use crate::input::{Input, chunks};

/// Checks the decoder of watches or of lists, as the first byte selects, with the rest as the stream.
pub(super) fn check_stream(codec: Codec, input: &mut Input<'_>) {
    let read = if input.choice(&[true, false]) { read_watch } else { read_list };
    let seed = input.byte();
    let stream = input.0;
    within_and_reserved(DECODER, stream.len(), || read(codec, &[stream], &mut |_| {}));
    let collect = |parts: &[&[u8]]| {
        let mut results = Vec::new();
        read(codec, parts, &mut |result| results.push(result.text()));
        results
    };
    let whole = collect(&[stream]);
    assert!(whole.len() <= stream.len() + 1, "more results than bytes");
    assert_eq!(whole, collect(&chunks(stream, seed)), "cut with seed {seed}");
}

/// What a decoder yields.
enum StreamResult<'a> {
    Event(&'a WatchEvent<Pod>),
    Item(&'a Obj<Pod>),
    Error(&'a StreamError),
    End(String),
}

impl StreamResult<'_> {
    /// Returns everything that a program sees of it.
    fn text(&self) -> String {
        let contents = |object: &Obj<Pod>| format!("{:?} {:?}", object.header(), object.raw());
        match self {
            StreamResult::Event(event) => match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    format!("{event:?} {}", contents(object))
                }
                other => format!("{other:?}"),
            },
            StreamResult::Item(object) => contents(object),
            StreamResult::Error(error) => format!("{error:?}"),
            StreamResult::End(text) => text.clone(),
        }
    }
}

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

fn read_watch(codec: Codec, parts: &[&[u8]], take: &mut dyn FnMut(StreamResult<'_>)) {
    let mut decoder = WatchDecoder::<Pod>::new(codec, pods());
    for part in parts {
        decoder.push(Bytes::copy_from_slice(part));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => take(StreamResult::Event(&event)),
                Ok(None) => break,
                Err(error) => take(StreamResult::Error(&error)),
            }
        }
    }
    take(StreamResult::End(format!("{:?}", decoder.finish())));
}

fn read_list(codec: Codec, parts: &[&[u8]], take: &mut dyn FnMut(StreamResult<'_>)) {
    let mut decoder = ListDecoder::<Pod>::new(codec, pods());
    for part in parts {
        decoder.push(Bytes::copy_from_slice(part));
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => take(StreamResult::Item(&item)),
                Ok(None) => break,
                Err(error) => take(StreamResult::Error(&error)),
            }
        }
    }
    take(StreamResult::End(format!("{:?}", decoder.finish())));
}
