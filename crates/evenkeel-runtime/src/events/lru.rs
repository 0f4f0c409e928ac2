//! A cache that forgets what has not been used for longest.

use std::collections::{BTreeMap, HashMap};

use super::EventKey;

/// So many entries at most. Looking one up counts as using it.
#[derive(Debug)]
pub(crate) struct Lru<V> {
    capacity: usize,
    uses: u64,
    entries: HashMap<EventKey, (u64, V)>,
    /// The keys by when they were last used.
    order: BTreeMap<u64, EventKey>,
}

impl<V> Lru<V> {
    /// A cache of at least one entry.
    pub(crate) fn new(capacity: usize) -> Self {
        Lru { capacity: capacity.max(1), uses: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// The entry, which is used now.
    pub(crate) fn get(&mut self, key: &EventKey) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(used) {
            self.order.insert(self.uses, key);
        }
        *used = self.uses;
        Some(value)
    }

    /// The entry, without using it.
    pub(crate) fn peek(&mut self, key: &EventKey) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Keeps a value, in place of the one there was. Answers with what had to go to make room for it.
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

    /// All entries, those that have not been used for longest first. Uses none of them.
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
