//! Reading a large collection in pages: [`Pager`].

mod items;
mod walk;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

pub use self::items::Items;
use self::walk::Walk;
use crate::api::scope::Scope;
use crate::api::{Api, ListParams};
use crate::error::Error;
use crate::rest::List;

/// Where pages come from: an [`Api`], or any closure from [`ListParams`] to a future list.
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
    /// Reads the objects page by page, as one list or one after the other.
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

/// Reads a large collection in pages, which spares the server's memory, and with [`stream`](Self::stream) the client's too.
/// [`Api::pages`] makes one; [`new`](Self::new) is for other sources of pages.
///
/// A server that leads in circles, or says that there are more than a million pages, is not followed: that is an
/// [`Error::Paging`].
///
/// # What stays in memory
///
/// Objects that came together may share memory, so that one object that is kept keeps many: see
/// [`Obj::detached`](evenkeel_core::Obj::detached). Whoever keeps a few of many objects says
/// [`detached`](Self::detached).
#[must_use = "nothing is read until it is listed or streamed"]
pub struct Pager<K, P> {
    source: P,
    params: ListParams,
    page_size: u32,
    prefetch: usize,
    full_list_if_expired: bool,
    detached: bool,
    kind: PhantomData<fn() -> K>,
}

/// A collection that was read in pages, as one list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing<K> {
    /// The list: all items, under the metadata of the first page. There is no next page to it.
    pub list: List<K>,
    /// Whether the server made pages of it. A list that comes in pages is never an old one from the server's cache.
    pub paginated: bool,
}

impl<K, P: PageSource<K>> Pager<K, P> {
    /// Reads what `params` ask for: pages of 500 unless they have a limit, up to 10 pages ahead, and all at once if the
    /// place where a page begins has become too old.
    pub fn new(source: P, params: ListParams) -> Self {
        Pager {
            source,
            params,
            page_size: 500,
            prefetch: 10,
            full_list_if_expired: true,
            detached: false,
            kind: PhantomData,
        }
    }

    /// How many objects to a page, if the params do not say; 0 for all in one.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// How many pages a [`stream`](Self::stream) may hold ready behind the one that is being read.
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetch = pages;
        self
    }

    /// Whether [`list`](Self::list) asks for everything at once if the place where a page begins has become too old, or
    /// hands out that error.
    pub fn full_list_if_expired(mut self, fall_back: bool) -> Self {
        self.full_list_if_expired = fall_back;
        self
    }

    /// Copies each object into memory of its own, for those who keep a few of many.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Reads all pages into one list.
    pub async fn list(&self) -> Result<Listing<K>, Error> {
        let mut walk = Walk::new(self.params.clone(), self.page_size);
        let mut whole: Option<List<K>> = None;
        loop {
            let page = match self.source.page(walk.params()).await {
                Ok(page) => page,
                Err(error) => {
                    let full = walk.instead(&error).filter(|_| self.full_list_if_expired).ok_or(error)?;
                    let list = self.keep(self.source.page(full).await?);
                    return Ok(Listing { list, paginated: true });
                }
            };
            let more = walk.turn(&page.meta.continue_token).map_err(Error::Paging)?;
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

    /// Reads page after page, and hands out the objects one by one.
    ///
    /// Pages are asked for when the stream is polled: while the objects of one page are taken from it, those of the next
    /// ones are on their way, up to [`prefetch`](Self::prefetch) and no further. If the place where a page begins has
    /// become too old, that error comes after the objects that were there until then, as objects that have been handed out
    /// cannot be taken back. After an error nothing comes any more.
    pub fn stream(self) -> Items<K, P> {
        let walk = Walk::new(self.params, self.page_size);
        Items::new(self.source, walk, self.prefetch, self.detached)
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

/// Why reading page by page was given up: the server's pages do not come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// A page says that the next one begins where an earlier one began.
    #[error("page {page} of the list leads back to an earlier page; given up, as it would never end")]
    Loop {
        /// Which page, counted from 1.
        page: u32,
    },
    /// There are more pages than any collection has.
    #[error("the list has more than {limit} pages; given up")]
    TooManyPages {
        /// The limit.
        limit: u32,
    },
}

#[cfg(test)]
mod tests;
