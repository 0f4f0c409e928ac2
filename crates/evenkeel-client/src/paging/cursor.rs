//! [`PageCursor`]: the parameters of the next page. No I/O.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::PagingError;
use crate::api::ListParams;
use crate::error::Error;

/// The maximal number of pages.
const MAX_PAGES: u32 = 1_000_000;

/// The maximal number of consecutive pages without objects. Servers fill their pages, so one is rare already.
const MAX_EMPTY_PAGES: u32 = 100;

/// The position in the pages of a collection.
#[derive(Debug)]
pub(super) struct PageCursor {
    /// The caller's parameters.
    requested: ListParams,
    page_size: u32,
    /// The next continue token; empty before the first page, unless the caller set one.
    token: String,
    pages: u32,
    max_pages: u32,
    /// The number of consecutive pages without objects.
    empty: u32,
    /// The hashes of the tokens so far: tokens may be long and many.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl PageCursor {
    pub(super) fn new(requested: ListParams, page_size: u32) -> Self {
        PageCursor {
            token: requested.continue_token.clone(),
            requested,
            page_size,
            pages: 0,
            max_pages: MAX_PAGES,
            empty: 0,
            seen: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the parameters of the next page. Only the first page has a resource version: the continue token contains
    /// it, and servers reject both together.
    pub(super) fn params(&self) -> ListParams {
        let mut params = self.requested.clone();
        if params.limit == 0 {
            params.limit = self.page_size;
        }
        if !self.token.is_empty() {
            params.resource_version.clear();
            params.version_match = None;
        }
        params.continue_token.clone_from(&self.token);
        params
    }

    /// Takes the number of objects of a page.
    pub(super) fn received(&mut self, objects: usize) -> Result<(), PagingError> {
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        if self.empty > MAX_EMPTY_PAGES {
            return Err(PagingError::NoProgress { pages: self.empty });
        }
        Ok(())
    }

    /// Takes the continue token of a page. Returns whether another page follows.
    pub(super) fn advance(&mut self, token: &str) -> Result<bool, PagingError> {
        self.pages += 1;
        if token.is_empty() {
            return Ok(false);
        }
        if token == self.token || !self.seen.insert(self.hasher.hash_one(token)) {
            return Err(PagingError::Loop { page: self.pages });
        }
        if self.pages >= self.max_pages {
            return Err(PagingError::TooManyPages { limit: self.max_pages });
        }
        token.clone_into(&mut self.token);
        Ok(true)
    }

    /// Returns the parameters of a full list, if this error means that the continue token has expired.
    pub(super) fn full_list(&self, error: &Error) -> Option<ListParams> {
        if self.token.is_empty() || !error.status().is_some_and(|status| status.is_expired()) {
            return None;
        }
        let mut params = self.requested.clone();
        params.limit = 0;
        params.continue_token.clear();
        Some(params)
    }
}

#[cfg(test)]
mod tests;
