//! The index from key hashes to slots.

use hashbrown::HashTable;

use super::keys::Slot;

/// The slots by the hash of their keys.
///
/// Growing a table moves all its entries under the queue's lock. To bound that pause, each entry keeps half of its hash (keys are
/// not read), and a large index consists of many tables that grow one by one.
pub(super) struct Index {
    pub(super) tables: Vec<HashTable<Found>>,
}

#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u32,
    slot: Slot,
}

/// The largest size of a single table.
pub(super) const LARGE: usize = 1 << 16;
/// Capacity that a table never gives back.
const FEW: usize = 256;
/// The number of tables of a large index.
pub(super) const TABLES: usize = 1 << 10;

impl Index {
    pub(super) fn new() -> Self {
        Index { tables: vec![HashTable::new()] }
    }

    /// Returns the slot with that hash for which the predicate holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let half = half(hash);
        let is_found = |found: &Found| found.hash == half && is_it(found.slot);
        self.tables[self.number(half)].find(spread(half), is_found).map(|found| found.slot)
    }

    /// Inserts a slot that is not contained.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot) {
        if self.tables.len() == 1 && self.tables[0].len() >= LARGE {
            let all = std::mem::take(&mut self.tables[0]);
            self.tables.resize_with(TABLES, HashTable::new);
            all.into_iter().for_each(|found| self.put(found));
        }
        self.put(Found { hash: half(hash), slot });
    }

    /// Removes a contained slot.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        let half = half(hash);
        let number = self.number(half);
        let table = &mut self.tables[number];
        if let Ok(found) = table.find_entry(spread(half), |found| found.slot == slot) {
            found.remove();
        }
        // The capacity of a burst is given back, with slack against repeated growth.
        if table.capacity() > FEW && table.len() < table.capacity() / 8 {
            table.shrink_to(table.len() * 2, |found| spread(found.hash));
        }
    }

    fn put(&mut self, found: Found) {
        let number = self.number(found.hash);
        self.tables[number].insert_unique(spread(found.hash), found, |found| spread(found.hash));
    }

    fn number(&self, half: u32) -> usize {
        half as usize & (self.tables.len() - 1)
    }
}

fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A hash table uses the bits at both ends of a hash, and the number of the table uses some of these: spreading makes all bits
/// count everywhere.
fn spread(half: u32) -> u64 {
    evenkeel_base::hash::spread(half.into()).rotate_left(32)
}
