//! [`Items`]: the objects of a collection, one by one, while its pages are still coming.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use evenkeel_core::Obj;
use futures_core::{FusedStream, Stream};

use super::PageSource;
use super::walk::Walk;
use crate::error::Error;

/// The objects of a collection, one by one; made by [`Pager::stream`](super::Pager::stream).
pub struct Items<K, P: PageSource<K>> {
    source: P,
    walk: Walk,
    /// The page that is on its way.
    reading: Option<Pin<Box<P::Reading>>>,
    /// The pages that are here. Objects are taken from the first one.
    pages: VecDeque<vec::IntoIter<Obj<K>>>,
    /// So many pages may wait behind the first one.
    prefetch: usize,
    detached: bool,
    /// Why there is no page after those that are here.
    end: Option<End>,
}

enum End {
    Complete,
    /// Not told yet: the objects that are here come first.
    Failed(Error),
}

// What is pinned is in a box of its own.
impl<K, P: PageSource<K>> Unpin for Items<K, P> {}

impl<K, P: PageSource<K>> Items<K, P> {
    pub(super) fn new(source: P, walk: Walk, prefetch: usize, detached: bool) -> Self {
        Items { source, walk, reading: None, pages: VecDeque::new(), prefetch, detached, end: None }
    }

    /// The next object; `None` at the end. May be dropped and called again: no object is lost.
    pub async fn next(&mut self) -> Option<Result<Obj<K>, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Reads pages for as long as there is room for them and they come at once.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        while self.end.is_none() && self.pages.len() < self.prefetch.saturating_add(2) {
            let reading = self.reading.get_or_insert_with(|| Box::pin(self.source.page(self.walk.params())));
            let Poll::Ready(page) = reading.as_mut().poll(context) else { return };
            self.reading = None;
            let turned = page.and_then(|page| {
                let more = self.walk.turn(&page.meta.continue_token).map_err(Error::Paging);
                self.pages.push_back(page.items.into_iter());
                more
            });
            match turned {
                Ok(true) => {}
                Ok(false) => self.end = Some(End::Complete),
                Err(error) => self.end = Some(End::Failed(error)),
            }
        }
    }

    /// The next object that is here.
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
                    return Poll::Ready(match std::mem::replace(end, End::Complete) {
                        End::Complete => None,
                        End::Failed(error) => Some(Err(error)),
                    });
                }
                None if this.reading.is_some() => return Poll::Pending,
                // The room was full of pages without objects; now there is room again.
                None => {}
            }
        }
    }
}

impl<K, P: PageSource<K>> FusedStream for Items<K, P> {
    fn is_terminated(&self) -> bool {
        matches!(self.end, Some(End::Complete)) && self.pages.iter().all(|page| page.len() == 0)
    }
}

impl<K, P: PageSource<K>> fmt::Debug for Items<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items")
            .field("walk", &self.walk)
            .field("pages_ready", &self.pages.len())
            .field("complete", &self.end.is_some())
            .finish_non_exhaustive()
    }
}
