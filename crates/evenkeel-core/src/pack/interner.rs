//! [`WeakInterner`]: shared values, found by hash without being kept alive.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};

/// Weak references to values by their hash.
pub(super) struct WeakInterner<T> {
    values: HashMap<u64, Weak<T>, BuildHasherDefault<AlreadyHashed>>,
    /// The number of entries at which dropped values are removed.
    clean_at: usize,
}

/// The smallest number of entries at which dropped values are removed.
const MIN_ENTRIES: usize = 1024;

impl<T> Default for WeakInterner<T> {
    fn default() -> Self {
        WeakInterner { values: HashMap::default(), clean_at: MIN_ENTRIES }
    }
}

impl<T> WeakInterner<T> {
    /// Returns the value with this hash, if it is still referenced.
    pub(super) fn get(&self, hash: u64) -> Option<Arc<T>> {
        self.values.get(&hash)?.upgrade()
    }

    /// Adds a value, and replaces one with the same hash.
    pub(super) fn put(&mut self, hash: u64, value: &Arc<T>) {
        self.values.insert(hash, Arc::downgrade(value));
        self.remove_dropped();
    }

    /// Returns an earlier value that equals this one, or adds this one.
    pub(super) fn intern(&mut self, value: Arc<T>, hash: impl FnOnce(&T) -> u64) -> Arc<T>
    where
        T: PartialEq,
    {
        match self.values.entry(hash(&value)) {
            Entry::Occupied(mut known) => match known.get().upgrade() {
                Some(first) if *first == *value => return first,
                _ => drop(known.insert(Arc::downgrade(&value))),
            },
            Entry::Vacant(entry) => drop(entry.insert(Arc::downgrade(&value))),
        }
        self.remove_dropped();
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Removes dropped values whenever the number of entries has doubled.
    fn remove_dropped(&mut self) {
        if self.values.len() < self.clean_at {
            return;
        }
        self.values.retain(|_, value| value.strong_count() > 0);
        self.values.shrink_to(2 * self.values.len());
        self.clean_at = MIN_ENTRIES.max(2 * self.values.len());
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
pub(super) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
