//! [`ExpiringMap`]: a map that removes expired entries incrementally.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::quality::RandomState;

/// A map whose owner calls [`sweep`](Self::sweep) with each use, which visits a few entries.
///
/// With one sweep per insertion, expired entries are at most an eighth of the table, and its size follows that of the live
/// entries.
pub(crate) struct ExpiringMap<K, V> {
    table: HashTable<(K, V)>,
    hashes: RandomState,
    /// The bucket at which the next sweep starts.
    hand: usize,
}

/// Buckets that one sweep visits.
const STRIDE: usize = 8;

impl<K: Eq + Hash, V> ExpiringMap<K, V> {
    pub(crate) fn new() -> Self {
        ExpiringMap { table: HashTable::new(), hashes: RandomState::new(), hand: 0 }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.table.find(self.hashes.hash_one(key), |(held, _)| held == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.table.find_mut(self.hashes.hash_one(key), |(held, _)| held == key).map(|(_, value)| value)
    }

    /// Returns the value of the key, after inserting `value` if there is none.
    pub(crate) fn get_or_insert(&mut self, key: &K, value: impl FnOnce() -> V) -> &mut V
    where
        K: Clone,
    {
        let hashes = &self.hashes;
        let entry = self.table.entry(hashes.hash_one(key), |(held, _)| held == key, |(held, _)| hashes.hash_one(held));
        let held = match entry {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => free.insert((key.clone(), value())).into_mut(),
        };
        &mut held.1
    }

    pub(crate) fn remove(&mut self, key: &K) -> bool {
        match self.table.find_entry(self.hashes.hash_one(key), |(held, _)| held == key) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Visits a few entries and removes the expired ones.
    pub(crate) fn sweep(&mut self, mut is_expired: impl FnMut(&V) -> bool) {
        for _ in 0..STRIDE.min(self.table.num_buckets()) {
            if self.hand >= self.table.num_buckets() {
                self.hand = 0;
                self.shrink();
            }
            if let Ok(entry) = self.table.get_bucket_entry(self.hand)
                && is_expired(&entry.get().1)
            {
                entry.remove();
            }
            self.hand += 1;
        }
    }

    /// Removes all expired entries.
    pub(crate) fn sweep_all(&mut self, mut is_expired: impl FnMut(&V) -> bool) {
        self.table.retain(|(_, value)| !is_expired(value));
        self.shrink();
    }

    /// Shrinks a table that is far too large. It costs as much as one round of sweeps.
    fn shrink(&mut self) {
        if self.table.len() < self.table.num_buckets() / 8 {
            let hashes = &self.hashes;
            self.table.shrink_to(self.table.len() * 2, |(held, _)| hashes.hash_one(held));
        }
    }
}

#[cfg(test)]
mod tests;
