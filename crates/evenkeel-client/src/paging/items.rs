//! [`Items`]: a stream of the objects of a collection.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use evenkeel_core::Obj;
use futures_core::{FusedStream, Stream};

use super::PageSource;
use super::cursor::PageCursor;
use crate::error::Error;

/// A stream of the objects of a collection. Created by [`Pager::stream`](super::Pager::stream).
pub struct Items<K, P: PageSource<K>> {
    source: P,
    cursor: PageCursor,
    /// The page that is being read.
    reading: Option<Pin<Box<P::Reading>>>,
    /// The pages that were read. Objects are taken from the first one.
    pages: VecDeque<vec::IntoIter<Obj<K>>>,
    /// How many pages are kept after the first one.
    prefetch: usize,
    detached: bool,
    /// Why no page follows.
    end: Option<ItemsEnd>,
}

enum ItemsEnd {
    Complete,
    /// Returned after the objects that were read.
    Failed(Error),
}

// Pinned fields are boxed.
impl<K, P: PageSource<K>> Unpin for Items<K, P> {}

impl<K, P: PageSource<K>> Items<K, P> {
    pub(super) fn new(source: P, cursor: PageCursor, prefetch: usize, detached: bool) -> Self {
        Items { source, cursor, reading: None, pages: VecDeque::new(), prefetch, detached, end: None }
    }

    /// Returns the next object; `None` at the end. Cancel safe: no object is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Obj<K>, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Reads pages while there is room and they are ready.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        while self.end.is_none() && self.pages.len() < self.prefetch.saturating_add(2) {
            let reading = self.reading.get_or_insert_with(|| Box::pin(self.source.page(self.cursor.params())));
            let Poll::Ready(page) = reading.as_mut().poll(context) else { return };
            self.reading = None;
            let turned = page.and_then(|page| {
                let progress = self.cursor.received(page.len());
                let more =
                    progress.and_then(|()| self.cursor.advance(&page.meta.continue_token)).map_err(Error::Paging);
                self.pages.push_back(page.items.into_iter());
                more
            });
            match turned {
                Ok(true) => {}
                Ok(false) => self.end = Some(ItemsEnd::Complete),
                Err(error) => self.end = Some(ItemsEnd::Failed(error)),
            }
        }
    }

    /// Takes the next object that was read.
    fn take(&mut self) -> Option<Obj<K>> {
        while let Some(page) = self.pages.front_mut() {
            if let Some(object) = page.next() {
                return Some(object);
            }
            self.pages.pop_front();
        }
        None
    }
}

impl<K, P: PageSource<K>> Stream for Items<K, P> {
    type Item = Result<Obj<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            this.read_ahead(context);
            if let Some(object) = this.take() {
                return Poll::Ready(Some(Ok(if this.detached { object.detached() } else { object })));
            }
            match &mut this.end {
                Some(end) => {
                    return Poll::Ready(match std::mem::replace(end, ItemsEnd::Complete) {
                        ItemsEnd::Complete => None,
                        ItemsEnd::Failed(error) => Some(Err(error)),
                    });
                }
                None if this.reading.is_some() => return Poll::Pending,
                // Pages without objects filled the room, which is free again.
                None => {}
            }
        }
    }
}

impl<K, P: PageSource<K>> FusedStream for Items<K, P> {
    fn is_terminated(&self) -> bool {
        matches!(self.end, Some(ItemsEnd::Complete)) && self.pages.iter().all(|page| page.len() == 0)
    }
}

impl<K, P: PageSource<K>> fmt::Debug for Items<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items")
            .field("cursor", &self.cursor)
            .field("pages_ready", &self.pages.len())
            .field("complete", &self.end.is_some())
            .finish_non_exhaustive()
    }
}
