//! Growing arrays in pages, which two states of the store share until one of them changes: [`Paged`] and [`HashTable`].
//!
//! Cloning either costs one reference count per page. A write to an unshared page is made in place; a shared page is copied first.

use std::sync::Arc;

/// An array in pages of `PAGE` entries. Entries that were never written hold the default.
#[derive(Clone, Debug)]
pub(super) struct Paged<T, const PAGE: usize> {
    pages: Vec<Arc<[T]>>,
}

impl<T: Clone + Default, const PAGE: usize> Paged<T, PAGE> {
    pub(super) fn new() -> Self {
        Paged { pages: Vec::new() }
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.pages.get(place as usize / PAGE)?.get(place as usize % PAGE)
    }

    /// Returns an entry for writing. The array grows as needed.
    pub(super) fn place(&mut self, place: u32) -> &mut T {
        let page = place as usize / PAGE;
        while self.pages.len() <= page {
            self.pages.push((0..PAGE).map(|_| T::default()).collect());
        }
        &mut Arc::make_mut(&mut self.pages[page])[place as usize % PAGE]
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &[T]> {
        self.pages.iter().map(|page| &**page)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone + use<'_, T, PAGE> {
        self.pages.iter().flat_map(|page| page.iter())
    }
}

/// Numbers by hash, with linear probing. The hash is stored beside the number, so that a look-up compares keys only when hashes
/// match, and growing needs no keys.
#[derive(Clone, Debug)]
pub(super) struct HashTable {
    /// The hash in the upper half, the number plus one in the lower; zero is an empty entry.
    places: Vec<Arc<[u64]>>,
    mask: u32,
    used: u32,
}

/// Entries per page: 4 KiB, which is copied in the time of a cache miss or two.
const PLACES: usize = 512;
const SMALLEST: usize = 16;

impl HashTable {
    pub(super) fn new() -> Self {
        Self::with_places(SMALLEST)
    }

    fn with_places(count: usize) -> Self {
        let page: Arc<[u64]> = (0..count.min(PLACES)).map(|_| 0).collect();
        // All pages start as one shared empty page.
        let places = vec![page; count.div_ceil(PLACES)];
        HashTable { places, mask: (count - 1) as u32, used: 0 }
    }

    fn at(&self, place: u32) -> u64 {
        let place = place as usize;
        self.places[place / PLACES][place % PLACES]
    }

    fn set(&mut self, place: u32, entry: u64) {
        let place = place as usize;
        Arc::make_mut(&mut self.places[place / PLACES])[place % PLACES] = entry;
    }

    /// Returns the number with this hash for which `is_right` holds.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_right: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut place = hash & self.mask;
        loop {
            let entry = self.at(place);
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == hash && is_right(number(entry)) {
                return Some(number(entry));
            }
            place = (place + 1) & self.mask;
        }
    }

    /// Inserts a number that is not in the table.
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        self.reserve(1);
        self.used += 1;
        self.put((u64::from(hash) << 32) | (u64::from(number) + 1));
    }

    fn put(&mut self, entry: u64) {
        let mut place = (entry >> 32) as u32 & self.mask;
        while self.at(place) != 0 {
            place = (place + 1) & self.mask;
        }
        self.set(place, entry);
    }

    /// Reserves capacity for more numbers.
    pub(super) fn reserve(&mut self, more: usize) {
        let needed = self.used as usize + more;
        let mut count = self.mask as usize + 1;
        if needed <= count / 4 * 3 {
            return;
        }
        while needed > count / 4 * 3 {
            count *= 2;
        }
        let mut larger = Self::with_places(count);
        for page in &self.places {
            page.iter().filter(|entry| **entry != 0).for_each(|entry| larger.put(*entry));
        }
        larger.used = self.used;
        *self = larger;
    }

    /// Removes a number, and moves entries behind it that would no longer be found.
    pub(super) fn remove(&mut self, hash: u32, removed: u32) {
        let mut hole = hash & self.mask;
        loop {
            let entry = self.at(hole);
            if entry == 0 {
                return;
            }
            if (entry >> 32) as u32 == hash && number(entry) == removed {
                break;
            }
            hole = (hole + 1) & self.mask;
        }
        self.used -= 1;
        let mut place = hole;
        loop {
            place = (place + 1) & self.mask;
            let entry = self.at(place);
            if entry == 0 {
                break;
            }
            let home = (entry >> 32) as u32 & self.mask;
            let from_home = place.wrapping_sub(home) & self.mask;
            let from_hole = place.wrapping_sub(hole) & self.mask;
            if from_home >= from_hole {
                self.set(hole, entry);
                hole = place;
            }
        }
        self.set(hole, 0);
    }
}

fn number(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests;
