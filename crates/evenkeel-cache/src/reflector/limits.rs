//! [`ListLimits`] and [`PageProgress`]: the limits of one list, over all its pages or initial events.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::error::ReflectorError;

/// The default maximal number of objects: several times what the largest clusters have.
const MAX_OBJECTS: usize = 1_000_000;
/// The default maximal bytes of all objects, as they are stored: 2 GiB.
const MAX_BYTES: usize = 2 << 30;
/// The maximal number of pages without objects. Servers fill their pages, so one is rare already.
const MAX_EMPTY_PAGES: u32 = 100;

/// The maximal number of objects of one list that are out of range: they are not kept, so this only ends an endless list.
const MAX_DROPPED: usize = 100_000_000;

/// The limits of one list. Without them, a server that never ends a list fills the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListLimits {
    pub(crate) objects: usize,
    /// The bytes of payloads, as they are stored.
    pub(crate) bytes: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        ListLimits { objects: MAX_OBJECTS, bytes: MAX_BYTES }
    }
}

impl ListLimits {
    /// Checks the objects of a list so far.
    pub(super) fn check(&self, objects: usize, bytes: usize) -> Result<(), ReflectorError> {
        if objects <= self.objects && bytes <= self.bytes {
            return Ok(());
        }
        Err(ReflectorError::ListTooLarge { objects, bytes, max_objects: self.objects, max_bytes: self.bytes })
    }
}

/// Checks the objects of a list so far that were out of range.
pub(super) fn check_dropped(objects: usize) -> Result<(), ReflectorError> {
    if objects <= MAX_DROPPED {
        return Ok(());
    }
    Err(ReflectorError::ListTooLarge { objects, bytes: 0, max_objects: MAX_DROPPED, max_bytes: MAX_BYTES })
}

/// The progress of a list from page to page.
#[derive(Debug, Default)]
pub(crate) struct PageProgress {
    /// The hashes of the continue tokens so far: tokens may be long and many.
    tokens: HashSet<u64>,
    hasher: RandomState,
    empty: u32,
}

impl PageProgress {
    /// Records the end of a page that another page follows.
    ///
    /// # Errors
    /// If the list makes no progress: the token repeats, or too many pages have no objects.
    pub(crate) fn page(&mut self, objects: usize, token: &str) -> Result<(), ReflectorError> {
        if !self.tokens.insert(self.hasher.hash_one(token)) {
            return Err(ReflectorError::EndlessList);
        }
        self.empty += u32::from(objects == 0);
        if self.empty > MAX_EMPTY_PAGES {
            return Err(ReflectorError::EmptyPages { pages: self.empty });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
