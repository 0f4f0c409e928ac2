//! A least-recently-used cache.

use std::collections::{BTreeMap, HashMap};

use super::EventKey;

/// A bounded cache. A lookup counts as use.
#[derive(Debug)]
pub(crate) struct Lru<V> {
    capacity: usize,
    uses: u64,
    entries: HashMap<EventKey, (u64, V)>,
    /// The keys by last use.
    order: BTreeMap<u64, EventKey>,
}

impl<V> Lru<V> {
    /// Returns a cache of at least one entry.
    pub(crate) fn new(capacity: usize) -> Self {
        Lru { capacity: capacity.max(1), uses: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// Returns the entry and marks it as used.
    pub(crate) fn get(&mut self, key: &EventKey) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(used) {
            self.order.insert(self.uses, key);
        }
        *used = self.uses;
        Some(value)
    }

    /// Returns the entry without marking it as used.
    pub(crate) fn peek(&mut self, key: &EventKey) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Inserts a value, replacing the previous one. Returns the evicted entry, if any.
    pub(crate) fn put(&mut self, key: EventKey, value: V) -> Option<(EventKey, V)> {
        self.remove(&key);
        let evicted = if self.entries.len() < self.capacity { None } else { self.pop() };
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.entries.insert(key, (self.uses, value));
        evicted
    }

    pub(crate) fn remove(&mut self, key: &EventKey) -> Option<V> {
        let (used, value) = self.entries.remove(key)?;
        self.order.remove(&used);
        Some(value)
    }

    fn pop(&mut self) -> Option<(EventKey, V)> {
        let (_, key) = self.order.pop_first()?;
        let (_, value) = self.entries.remove(&key)?;
        Some((key, value))
    }

    /// Returns all keys, least recently used first, without marking them as used.
    pub(crate) fn keys(&self) -> Vec<EventKey> {
        self.order.values().cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.order.len(), self.entries.len());
        self.entries.len()
    }
}

#[cfg(test)]
mod tests;
