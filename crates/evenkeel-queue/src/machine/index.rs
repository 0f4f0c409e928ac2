//! The index from key hashes to slots.
//!
//! Of a large queue neither the index nor the table of its pages fits into a processor's caches: what a lookup costs is the number of
//! cache lines that it reads at random. Here it is one. General hash tables read two or more: their control bytes are apart.

use super::keys::{NONE, Slot};

/// The slots by the hash of their keys.
///
/// Growing a table moves all its entries under the queue's lock. To bound that pause, each entry keeps half of its hash (keys are
/// not read), and a large index consists of many tables that grow one by one.
pub(super) struct Index {
    pub(super) tables: Vec<Table>,
}

/// The largest size of a single table.
pub(super) const LARGE: usize = 1 << 16;
/// The number of tables of a large index.
pub(super) const TABLES: usize = 1 << TABLE_BITS;
const TABLE_BITS: u32 = 10;

impl Index {
    pub(super) fn new() -> Self {
        Index { tables: vec![Table::default()] }
    }

    /// Returns the slot with that hash for which the predicate holds.
    #[inline]
    pub(super) fn find(&self, half: u32, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.tables[self.number(half)].find(half, is_it)
    }

    /// Inserts a slot that is not contained.
    #[inline]
    pub(super) fn insert(&mut self, half: u32, slot: Slot) {
        if self.tables.len() == 1 && self.tables[0].len >= LARGE {
            self.split();
        }
        let number = self.number(half);
        self.tables[number].insert(half, slot);
    }

    /// Distributes a single table over many.
    #[cold]
    fn split(&mut self) {
        let all = std::mem::take(&mut self.tables[0]);
        self.tables.resize_with(TABLES, Table::default);
        for (half, slot) in all.lines.iter().flat_map(Line::entries) {
            let number = self.number(half);
            self.tables[number].insert(half, slot);
        }
    }

    /// Removes a contained slot.
    #[inline]
    pub(super) fn remove(&mut self, half: u32, slot: Slot) {
        let number = self.number(half);
        self.tables[number].remove(half, slot);
    }

    /// Returns whether lookups are likely to wait for memory.
    pub(super) fn is_large(&self) -> bool {
        self.tables.len() > 1
    }

    /// Reads the line of a hash, so that it is in the cache. Reads of several lines overlap, which lookups do not.
    #[inline]
    pub(super) fn touch(&self, half: u32) -> u32 {
        let table = &self.tables[self.number(half)];
        table.lines.get(table.home(half)).map_or(0, |line| line.hashes[0])
    }

    fn number(&self, half: u32) -> usize {
        half as usize & (self.tables.len() - 1)
    }
}

/// Returns the half of a hash that the index uses.
pub(super) fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

const WIDTH: usize = 8;

/// One cache line of entries, the first ones in use.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    hashes: [u32; WIDTH],
    /// [`NONE`] if not in use.
    slots: [Slot; WIDTH],
}

impl Line {
    const EMPTY: Line = Line { hashes: [0; WIDTH], slots: [NONE; WIDTH] };

    fn is_full(&self) -> bool {
        self.slots[WIDTH - 1] != NONE
    }

    fn entries(&self) -> impl Iterator<Item = (u32, Slot)> {
        self.hashes.into_iter().zip(self.slots).take_while(|(_, slot)| *slot != NONE)
    }

    /// Adds an entry, if the line is not full.
    fn push(&mut self, half: u32, slot: Slot) -> bool {
        let free = self.slots.iter().position(|slot| *slot == NONE);
        if let Some(free) = free {
            (self.hashes[free], self.slots[free]) = (half, slot);
        }
        free.is_some()
    }

    /// Removes the entry at a position; the last one takes its place.
    fn swap_remove(&mut self, position: usize) {
        let last = self.slots.iter().position(|slot| *slot == NONE).unwrap_or(WIDTH) - 1;
        (self.hashes[position], self.slots[position]) = (self.hashes[last], self.slots[last]);
        self.slots[last] = NONE;
    }
}

/// A hash table whose buckets are cache lines.
///
/// An entry is in the line of its hash or, if that was full, in the next line that was not: all lines in between are full. A
/// removal from a full line moves a later entry there, so that this always holds and a lookup ends at the first line that is not
/// full.
#[derive(Default)]
pub(super) struct Table {
    /// None, or a power of two.
    lines: Vec<Line>,
    len: usize,
}

/// Entries per line, on average, before a table grows.
const LOAD: usize = 6;
/// Lines that a table never gives back.
const FEW: usize = 32;

impl Table {
    /// Returns the number of entries that fit without growing.
    pub(super) fn capacity(&self) -> usize {
        self.lines.len() * LOAD
    }

    fn find(&self, half: u32, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.position(half, is_it).map(|(at, position)| self.lines[at].slots[position])
    }

    /// Returns the line and the position in it.
    #[inline]
    fn position(&self, half: u32, is_it: impl Fn(Slot) -> bool) -> Option<(usize, usize)> {
        let mut at = self.home(half);
        loop {
            let line = self.lines.get(at)?;
            // All hashes are compared at once: where they are in the line cannot be predicted.
            let mut equal = 0;
            for (position, hash) in line.hashes.iter().enumerate() {
                equal |= u32::from(*hash == half) << position;
            }
            while equal != 0 {
                let position = equal.trailing_zeros() as usize;
                equal &= equal - 1;
                let slot = line.slots[position];
                if slot != NONE && is_it(slot) {
                    return Some((at, position));
                }
            }
            if !line.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    #[inline]
    fn insert(&mut self, half: u32, slot: Slot) {
        if self.len == self.capacity() {
            self.resize((self.lines.len() * 2).max(1));
        }
        self.len += 1;
        self.put(half, slot);
    }

    fn put(&mut self, half: u32, slot: Slot) {
        let mut at = self.home(half);
        while !self.lines[at].push(half, slot) {
            at = self.after(at);
        }
    }

    fn remove(&mut self, half: u32, slot: Slot) {
        let Some((mut hole, position)) = self.position(half, |found| found == slot) else { return };
        self.len -= 1;
        let mut was_full = self.lines[hole].is_full();
        self.lines[hole].swap_remove(position);
        let mut at = hole;
        while was_full {
            at = self.after(at);
            was_full = self.lines[at].is_full();
            let fits = |half| self.distance(self.home(half), at) >= self.distance(hole, at);
            let moved = self.lines[at].entries().enumerate().find(|(_, (half, _))| fits(*half));
            if let Some((position, (half, slot))) = moved {
                self.lines[at].swap_remove(position);
                self.lines[hole].push(half, slot);
                hole = at;
            }
        }
        // The capacity of a burst is given back, with slack against repeated growth.
        if self.lines.len() > FEW && self.len < self.capacity() / 8 {
            self.resize((self.len * 2 / LOAD + 1).next_power_of_two().max(FEW));
        }
    }

    #[cold]
    fn resize(&mut self, lines: usize) {
        let old = std::mem::replace(&mut self.lines, vec![Line::EMPTY; lines]);
        old.iter().flat_map(Line::entries).for_each(|(half, slot)| self.put(half, slot));
    }

    /// Returns the line of a hash. The lowest bits chose the table.
    #[inline]
    fn home(&self, half: u32) -> usize {
        (half >> TABLE_BITS) as usize & self.lines.len().wrapping_sub(1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.lines.len() - 1)
    }

    /// Returns the number of lines from one to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.lines.len() - 1)
    }
}

#[cfg(test)]
mod tests;
