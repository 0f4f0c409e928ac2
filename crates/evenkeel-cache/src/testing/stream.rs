//! The lists and watches of a [`FakeSource`](super::FakeSource).

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::vec;

use evenkeel_core::{ResourceVersion, Untyped, WatchEvent};
use tokio::sync::mpsc;

use super::FakeSource;
use crate::Object;
use crate::source::{ListItems, ListPart, SourceError, WatchEvents};

/// One item of a watch stream.
pub(super) type WatchItem = Result<WatchEvent<Untyped>, SourceError>;

pub(super) struct FakeList {
    pub(super) objects: vec::IntoIter<Object>,
    pub(super) version: ResourceVersion,
}

impl ListItems for FakeList {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<ListPart, SourceError>> {
        Poll::Ready(Ok(match self.objects.next() {
            Some(object) => ListPart::Object(object),
            None => ListPart::End { resource_version: self.version.clone(), continue_token: String::new() },
        }))
    }
}

/// One watch. Dropping it closes it at the source.
pub(super) struct FakeWatch {
    pub(super) source: FakeSource,
    pub(super) id: u64,
    pub(super) replay: VecDeque<WatchEvent<Untyped>>,
    pub(super) live: mpsc::Receiver<WatchItem>,
}

impl WatchEvents for FakeWatch {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<WatchItem>> {
        match self.replay.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => self.live.poll_recv(context),
        }
    }
}

impl Drop for FakeWatch {
    fn drop(&mut self) {
        self.source.watch_ended(self.id);
    }
}
