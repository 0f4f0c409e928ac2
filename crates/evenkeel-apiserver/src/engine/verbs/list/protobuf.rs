//! A list as protobuf. The envelope starts with the length, so all items are encoded before the first byte is sent.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::Status;
use serde_json::Value;

use super::CHUNK;
use crate::engine::response;
use crate::engine::view::{View, unwritable};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::protobuf_response::{self, TAIL};
use crate::store::Record;

/// How many items are encoded before other requests run.
const BATCH: usize = 256;
/// How many bytes of items that are not cached are held until they are sent. Others are encoded again when they are sent.
const HELD: usize = 1024 * 1024;

/// A list whose items are being encoded.
///
/// A message that is cached with its record is not copied: a list of objects in their stored form costs one pointer per
/// object. Of other forms a part is held, so that short lists are encoded once.
pub(super) struct ProtobufList {
    view: View,
    metadata: Value,
    remaining: std::vec::IntoIter<Arc<Record>>,
    items: Vec<ListItem>,
    /// The bytes of the items in [`ListItem::Encoded`].
    held: usize,
}

enum ListItem {
    Cached(Arc<Record>),
    Encoded(Box<[u8]>),
    /// An item of this length, which is encoded again when it is sent.
    Measured(Arc<Record>, usize),
}

impl ListItem {
    fn len(&self) -> usize {
        match self {
            ListItem::Cached(record) => record.protobuf().unwrap_or_default().len(),
            ListItem::Encoded(message) => message.len(),
            ListItem::Measured(_, length) => *length,
        }
    }

    /// Returns the message, or `None` if it is not what was measured.
    fn message(&self, view: &View) -> Option<Cow<'_, [u8]>> {
        match self {
            ListItem::Cached(record) => record.protobuf().map(Cow::Borrowed),
            ListItem::Encoded(message) => Some(Cow::Borrowed(message)),
            ListItem::Measured(record, length) => {
                view.message(record, None).ok().filter(|message| message.len() == *length)
            }
        }
    }
}

impl ProtobufList {
    pub(super) fn new(view: View, metadata: Value, records: Vec<Arc<Record>>) -> Self {
        let items = Vec::with_capacity(records.len());
        ProtobufList { view, metadata, remaining: records.into_iter(), items, held: 0 }
    }

    /// Encodes the next items. Returns the response after the last one.
    pub(super) fn run(mut self) -> HandlerOutcome {
        if let Err(status) = self.encode(BATCH) {
            return HandlerOutcome::Response(response::status(&status, self.view.representation));
        }
        match self.remaining.len() {
            0 => {
                let representation = self.view.representation;
                let response = self.response();
                HandlerOutcome::Response(response.unwrap_or_else(|status| response::status(&status, representation)))
            }
            _ => HandlerOutcome::Unfinished(Box::new(move || self.run())),
        }
    }

    /// Encodes all items and returns the response.
    pub(super) fn run_at_once(mut self) -> Result<http::Response<Body>, Status> {
        self.encode(usize::MAX)?;
        self.response()
    }

    fn encode(&mut self, most: usize) -> Result<(), Status> {
        for record in self.remaining.by_ref().take(most) {
            let made = match self.view.cached_message(&record).map_err(unwritable)? {
                Cow::Borrowed(_) => None,
                Cow::Owned(message) => Some(message),
            };
            self.items.push(match made {
                None => ListItem::Cached(record),
                Some(message) if self.held < HELD => {
                    self.held += message.len();
                    ListItem::Encoded(message.into())
                }
                Some(message) => ListItem::Measured(record, message.len()),
            });
        }
        Ok(())
    }

    fn response(self) -> Result<http::Response<Body>, Status> {
        let representation = self.view.representation;
        let (api_version, kind) = self.view.list_kind_in_form();
        let size = self.items.iter().map(|item| protobuf_response::item_size(item.len())).sum();
        let head = protobuf_response::list_head(api_version, kind, &self.metadata, size).map_err(unwritable)?;
        let short = size < CHUNK / 2;
        let mut stream =
            Chunks { view: self.view, head: head.into(), size, items: self.items.into_iter(), done: false };
        Ok(response::with_body(
            representation,
            match short {
                true => Body::whole(stream.next_chunk().transpose().ok().flatten().unwrap_or_default()),
                false => Body::stream(stream),
            },
        ))
    }
}

/// A list that is sent in chunks.
struct Chunks {
    view: View,
    head: Bytes,
    /// The size of the remaining items in bytes.
    size: usize,
    items: std::vec::IntoIter<ListItem>,
    done: bool,
}

impl Chunks {
    fn next_chunk(&mut self) -> Option<Result<Bytes, ConnectionCut>> {
        if self.done {
            return None;
        }
        let head = std::mem::take(&mut self.head);
        let mut chunk = Vec::with_capacity(head.len() + self.size.min(CHUNK + CHUNK / 8) + TAIL.len());
        chunk.extend_from_slice(&head);
        for item in self.items.by_ref() {
            let Some(message) = item.message(&self.view) else {
                tracing::error!("item of a list was encoded to another length; closing the connection");
                return Some(Err(ConnectionCut));
            };
            protobuf_response::put_item(&mut chunk, &message);
            self.size = self.size.saturating_sub(protobuf_response::item_size(message.len()));
            if chunk.len() >= CHUNK {
                return Some(Ok(chunk.into()));
            }
        }
        self.done = true;
        chunk.extend_from_slice(TAIL);
        Some(Ok(chunk.into()))
    }
}

impl FrameStream for Chunks {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        Poll::Ready(self.next_chunk())
    }
}
