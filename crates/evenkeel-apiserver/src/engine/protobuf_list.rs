//! A list as protobuf: every item is written before the first byte is sent, for the envelope begins with the length.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_core::Status;
use serde_json::Value;

use super::read::PIECE;
use super::reply;
use super::view::{View, unwritable};
use crate::http_types::{Body, ConnectionCut, FrameStream, HandlerOutcome};
use crate::protobuf_response::{self, TAIL};
use crate::store::Record;

/// How many items are written before others get their turn.
const TURN: usize = 256;

/// A list whose items are being written.
///
/// What is kept with a record is not copied, so a list of objects in the form in which they are stored costs a pointer an
/// object besides; other forms are held until they are sent.
pub(super) struct BinaryList {
    view: View,
    metadata: Value,
    left: std::vec::IntoIter<Arc<Record>>,
    items: Vec<Item>,
}

enum Item {
    Kept(Arc<Record>),
    Made(Box<[u8]>),
}

impl Item {
    fn message(&self) -> &[u8] {
        match self {
            Item::Kept(record) => record.protobuf().unwrap_or_default(),
            Item::Made(message) => message,
        }
    }
}

impl BinaryList {
    pub(super) fn new(view: View, metadata: Value, records: Vec<Arc<Record>>) -> Self {
        let items = Vec::with_capacity(records.len());
        BinaryList { view, metadata, left: records.into_iter(), items }
    }

    /// Writes the next items, and answers when there are no more.
    pub(super) fn go_on(mut self) -> HandlerOutcome {
        if let Err(status) = self.write(TURN) {
            return HandlerOutcome::Response(reply::status(&status, self.view.representation));
        }
        match self.left.len() {
            0 => {
                let representation = self.view.representation;
                let answer = self.answer();
                HandlerOutcome::Response(answer.unwrap_or_else(|status| reply::status(&status, representation)))
            }
            _ => HandlerOutcome::Unfinished(Box::new(move || self.go_on())),
        }
    }

    /// Writes all items, and the answer.
    pub(super) fn at_once(mut self) -> Result<http::Response<Body>, Status> {
        self.write(usize::MAX)?;
        self.answer()
    }

    fn write(&mut self, most: usize) -> Result<(), Status> {
        for record in self.left.by_ref().take(most) {
            let made = match self.view.kept_message(&record).map_err(unwritable)? {
                Cow::Borrowed(_) => None,
                Cow::Owned(message) => Some(message),
            };
            self.items.push(made.map_or(Item::Kept(record), |message| Item::Made(message.into())));
        }
        Ok(())
    }

    fn answer(self) -> Result<http::Response<Body>, Status> {
        let representation = self.view.representation;
        let (api_version, kind) = self.view.list_shown_as();
        let size = self.items.iter().map(|item| protobuf_response::item_size(item.message().len())).sum();
        let head = protobuf_response::list_head(api_version, kind, &self.metadata, size).map_err(unwritable)?;
        let short = size < PIECE / 2;
        let mut stream = Pieces { head: head.into(), size, items: self.items.into_iter(), done: false };
        Ok(reply::with_body(
            representation,
            match short {
                true => Body::whole(stream.next_piece().unwrap_or_default()),
                false => Body::stream(stream),
            },
        ))
    }
}

/// A list that is sent in pieces.
struct Pieces {
    head: Bytes,
    /// How many bytes the items that are left take.
    size: usize,
    items: std::vec::IntoIter<Item>,
    done: bool,
}

impl Pieces {
    fn next_piece(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let head = std::mem::take(&mut self.head);
        let mut piece = Vec::with_capacity(head.len() + self.size.min(PIECE + PIECE / 8) + TAIL.len());
        piece.extend_from_slice(&head);
        for item in self.items.by_ref() {
            let message = item.message();
            protobuf_response::put_item(&mut piece, message);
            self.size = self.size.saturating_sub(protobuf_response::item_size(message.len()));
            if piece.len() >= PIECE {
                return Some(piece.into());
            }
        }
        self.done = true;
        piece.extend_from_slice(TAIL);
        Some(piece.into())
    }
}

impl FrameStream for Pieces {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        Poll::Ready(self.next_piece().map(Ok))
    }
}
