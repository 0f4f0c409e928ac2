//! [`Pager`]: reads a large collection in pages.

mod cursor;
mod items;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use self::cursor::PageCursor;
pub use self::items::Items;
use crate::api::scope::Scope;
use crate::api::{Api, ListParams};
use crate::error::Error;
use crate::rest::List;

/// A source of pages: an [`Api`], or any closure from [`ListParams`] to a future list.
pub trait PageSource<K> {
    /// A page that is being read.
    type Reading: Future<Output = Result<List<K>, Error>>;

    /// Reads a page.
    fn page(&self, params: ListParams) -> Self::Reading;
}

impl<K, P, F> PageSource<K> for P
where
    P: Fn(ListParams) -> F,
    F: Future<Output = Result<List<K>, Error>>,
{
    type Reading = F;

    fn page(&self, params: ListParams) -> F {
        self(params)
    }
}

impl<K: 'static, S: Scope> PageSource<K> for Api<K, S> {
    type Reading = Pin<Box<dyn Future<Output = Result<List<K>, Error>> + Send>>;

    fn page(&self, params: ListParams) -> Self::Reading {
        let api = self.clone();
        Box::pin(async move { api.list(&params).await })
    }
}

impl<K: 'static, S: Scope> Api<K, S> {
    /// Reads the objects page by page, as one list or as a stream.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::ListParams;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pods = client.api::<Pod>().pages(&ListParams::default().labels("app=web")).stream();
    /// while let Some(pod) = pods.next().await {
    ///     println!("{}", pod?.key());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages(&self, params: &ListParams) -> Pager<K, Self> {
        Pager::new(self.clone(), params.clone())
    }
}

/// Reads a large collection in pages, which saves memory on the server, and with [`stream`](Self::stream) in the client
/// too. [`Api::pages`] creates one; [`new`](Self::new) takes other sources.
///
/// Continue tokens that repeat, a hundred pages without objects in a row, more than a million pages, and more objects than
/// [`max_bytes`](Self::max_bytes) are an [`Error::Paging`].
///
/// # Memory
///
/// Objects of one response may share memory, so that keeping one keeps many: see
/// [`Obj::detached`](evenkeel_core::Obj::detached). Use [`detached`](Self::detached) to keep a few of many objects.
#[must_use = "nothing is read until it is listed or streamed"]
pub struct Pager<K, P> {
    source: P,
    params: ListParams,
    page_size: u32,
    prefetch: usize,
    full_list_if_expired: bool,
    detached: bool,
    max_bytes: usize,
    kind: PhantomData<fn() -> K>,
}

/// The default of [`Pager::max_bytes`]: 2 GiB.
const MAX_BYTES: usize = 2 << 30;

/// A collection that was read in pages, as one list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing<K> {
    /// The list: all items, with the metadata of the first page and without a continue token.
    pub list: List<K>,
    /// Whether the server paginated it. A paginated list never comes from the server's cache.
    pub paginated: bool,
}

impl<K, P: PageSource<K>> Pager<K, P> {
    /// Creates a pager: pages of 500 unless `params` has a limit, up to 10 pages ahead, and a full list if a continue
    /// token has expired.
    pub fn new(source: P, params: ListParams) -> Self {
        Pager {
            source,
            params,
            page_size: 500,
            prefetch: 10,
            full_list_if_expired: true,
            detached: false,
            max_bytes: MAX_BYTES,
            kind: PhantomData,
        }
    }

    /// Sets the number of objects per page, if the params have no limit; 0 for one page.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// Sets how many pages a [`stream`](Self::stream) reads ahead.
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetch = pages;
        self
    }

    /// Sets whether [`list`](Self::list) falls back to a full list when a continue token has expired, or returns that
    /// error.
    pub fn full_list_if_expired(mut self, fall_back: bool) -> Self {
        self.full_list_if_expired = fall_back;
        self
    }

    /// Copies each object into its own memory.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Sets the maximal bytes of all objects of a [`list`](Self::list), over all pages. The default is 2 GiB. A
    /// [`stream`](Self::stream) has no such limit, as it keeps a few pages only.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Reads all pages into one list.
    pub async fn list(&self) -> Result<Listing<K>, Error> {
        let mut cursor = PageCursor::new(self.params.clone(), self.page_size);
        let mut whole: Option<List<K>> = None;
        let mut bytes: usize = 0;
        loop {
            let page = match self.source.page(cursor.params()).await {
                Ok(page) => page,
                Err(error) => {
                    let full = cursor.full_list(&error).filter(|_| self.full_list_if_expired).ok_or(error)?;
                    let list = self.keep(self.source.page(full).await?);
                    return Ok(Listing { list, paginated: true });
                }
            };
            cursor.received(page.len()).map_err(Error::Paging)?;
            let more = cursor.advance(&page.meta.continue_token).map_err(Error::Paging)?;
            bytes = page.iter().fold(bytes, |sum, object| sum.saturating_add(object.payload_bytes()));
            if bytes > self.max_bytes {
                return Err(Error::Paging(PagingError::TooLarge { limit: self.max_bytes }));
            }
            let page = self.keep(page);
            let Some(list) = &mut whole else {
                if !more {
                    return Ok(Listing { list: page, paginated: false });
                }
                whole = Some(page);
                continue;
            };
            list.items.extend(page.items);
            if !more && let Some(mut list) = whole {
                list.meta.continue_token.clear();
                list.meta.remaining_item_count = None;
                return Ok(Listing { list, paginated: true });
            }
        }
    }

    /// Reads page after page and returns the objects one by one.
    ///
    /// Pages are requested while the stream is polled: while the objects of one page are consumed, the next pages are
    /// read, up to [`prefetch`](Self::prefetch). An expired continue token is returned as an error after the objects
    /// before it, because returned objects cannot be taken back. The stream ends after an error.
    pub fn stream(self) -> Items<K, P> {
        let cursor = PageCursor::new(self.params, self.page_size);
        Items::new(self.source, cursor, self.prefetch, self.detached)
    }

    fn keep(&self, mut list: List<K>) -> List<K> {
        if self.detached {
            list.items.iter_mut().for_each(|object| *object = object.detached());
        }
        list
    }
}

impl<K, P> fmt::Debug for Pager<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("params", &self.params)
            .field("page_size", &self.page_size)
            .field("prefetch", &self.prefetch)
            .field("full_list_if_expired", &self.full_list_if_expired)
            .field("detached", &self.detached)
            .finish_non_exhaustive()
    }
}

impl<K> IntoIterator for Listing<K> {
    type Item = evenkeel_core::Obj<K>;
    type IntoIter = std::vec::IntoIter<evenkeel_core::Obj<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

/// Why paging was aborted: the pages do not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// A continue token repeats.
    #[error("page {page} of the list repeats an earlier continue token; aborted")]
    Loop {
        /// The page, counted from 1.
        page: u32,
    },
    /// Page after page has no objects.
    #[error("{pages} pages of the list in a row have no objects; aborted")]
    NoProgress {
        /// The number of pages.
        pages: u32,
    },
    /// The objects of all pages together exceed [`Pager::max_bytes`].
    #[error(
        "the pages of the list exceed {limit} bytes in all; aborted (stream the list, or raise `Pager::max_bytes`)"
    )]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// There are more pages than any collection has.
    #[error("the list has more than {limit} pages; aborted")]
    TooManyPages {
        /// The limit.
        limit: u32,
    },
}

#[cfg(test)]
mod tests;
