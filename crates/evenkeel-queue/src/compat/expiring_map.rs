//! [`ExpiringMap`]: a map that is cleaned a little with every use.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::quality::RandomState;

/// A map whose owner calls [`sweep`](Self::sweep) with every use and so never has to look at all of it at once.
///
/// A hand goes round the table. Who sweeps once for each key that comes in finds that entries which are over make up no
/// more than an eighth of the table: it is as large as what is still good needs, within a factor.
pub(crate) struct ExpiringMap<K, V> {
    table: HashTable<(K, V)>,
    hashes: RandomState,
    /// Where the next sweep starts.
    hand: usize,
}

/// Places of the table that one sweep looks at.
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

    /// What is held for the key; if that is nothing, then `value` from now on.
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

    /// Looks at a few entries and removes those that are over.
    pub(crate) fn sweep(&mut self, mut over: impl FnMut(&V) -> bool) {
        for _ in 0..STRIDE.min(self.table.num_buckets()) {
            if self.hand >= self.table.num_buckets() {
                self.hand = 0;
                self.shrink();
            }
            if let Ok(entry) = self.table.get_bucket_entry(self.hand)
                && over(&entry.get().1)
            {
                entry.remove();
            }
            self.hand += 1;
        }
    }

    /// Looks at all entries and removes those that are over.
    pub(crate) fn sweep_all(&mut self, mut over: impl FnMut(&V) -> bool) {
        self.table.retain(|(_, value)| !over(value));
        self.shrink();
    }

    /// Gives back the memory of a table that has become far too large. It costs what the round before it has cost.
    fn shrink(&mut self) {
        if self.table.len() < self.table.num_buckets() / 8 {
            let hashes = &self.hashes;
            self.table.shrink_to(self.table.len() * 2, |(held, _)| hashes.hash_one(held));
        }
    }
}

#[cfg(test)]
mod tests;
