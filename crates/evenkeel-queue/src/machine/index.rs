//! Finds the slots of keys by hash.

use hashbrown::HashTable;

use super::keys::Slot;

/// Which slots there are, by the hash of their keys.
///
/// A table that grows has to move all that is in it, which takes long if it is large, and the queue waits meanwhile. So half
/// of each hash is kept, because the keys lie anywhere in memory; and a large index is many tables, each of which grows on
/// its own.
pub(super) struct Index {
    pub(super) tables: Vec<HashTable<Found>>,
}

#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u32,
    slot: Slot,
}

/// How many slots are too many for one table.
pub(super) const LARGE: usize = 1 << 16;
/// Room for so many is kept in each table.
const FEW: usize = 256;
/// How many tables there are then.
pub(super) const TABLES: usize = 1 << 10;

impl Index {
    pub(super) fn new() -> Self {
        Index { tables: vec![HashTable::new()] }
    }

    /// The slot with that hash for which the question is answered with yes.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let half = half(hash);
        let is_found = |found: &Found| found.hash == half && is_it(found.slot);
        self.tables[self.number(half)].find(spread(half), is_found).map(|found| found.slot)
    }

    /// Puts in a slot that is not here.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot) {
        if self.tables.len() == 1 && self.tables[0].len() >= LARGE {
            let all = std::mem::take(&mut self.tables[0]);
            self.tables.resize_with(TABLES, HashTable::new);
            all.into_iter().for_each(|found| self.put(found));
        }
        self.put(Found { hash: half(hash), slot });
    }

    /// Takes out a slot that is here.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        let half = half(hash);
        let number = self.number(half);
        let table = &mut self.tables[number];
        if let Ok(found) = table.find_entry(spread(half), |found| found.slot == slot) {
            found.remove();
        }
        // What a burst has left behind is given back, and not so soon that it would have to be asked for again.
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

/// A table goes by the bits at both ends of a hash, and which table it is by some of those in here: this makes all of them
/// matter everywhere.
fn spread(half: u32) -> u64 {
    evenkeel_base::hash::spread(half.into()).rotate_left(32)
}
