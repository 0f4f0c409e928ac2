//! [`Walk`]: which page comes next. No I/O.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::PagingError;
use crate::api::ListParams;
use crate::error::Error;

/// No collection has more pages than this.
const MAX_PAGES: u32 = 1_000_000;

/// A way through the pages of a collection.
#[derive(Debug)]
pub(super) struct Walk {
    /// What was asked for.
    asked: ListParams,
    page_size: u32,
    /// Where the next page begins; empty before the first one, unless it was asked for.
    token: String,
    pages: u32,
    max_pages: u32,
    /// The tokens that were seen, by their hashes: a token may be long, and there may be many.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl Walk {
    pub(super) fn new(asked: ListParams, page_size: u32) -> Self {
        Walk {
            token: asked.continue_token.clone(),
            asked,
            page_size,
            pages: 0,
            max_pages: MAX_PAGES,
            seen: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// What to ask for now. The version belongs to the first page; where the others begin says it too, and servers refuse
    /// both at once.
    pub(super) fn params(&self) -> ListParams {
        let mut params = self.asked.clone();
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

    /// A page has come, and says that the next one begins there. Answers whether there is a next one.
    pub(super) fn turn(&mut self, token: &str) -> Result<bool, PagingError> {
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

    /// What to ask for after this failure instead of pages: everything at once, if it is the place of the page that has
    /// become too old.
    pub(super) fn instead(&self, error: &Error) -> Option<ListParams> {
        if self.token.is_empty() || !error.status().is_some_and(|status| status.is_expired()) {
            return None;
        }
        let mut params = self.asked.clone();
        params.limit = 0;
        params.continue_token.clear();
        Some(params)
    }
}

#[cfg(test)]
mod tests;
