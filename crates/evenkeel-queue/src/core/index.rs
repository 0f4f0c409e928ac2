//! Finds the slots of keys by hash.
//!
//! A slot and as much of the hash as there is room for share a word, and sixteen words are one line of the cache. So most
//! look-ups touch one line here, and one entry if there is one. A table grows by half of what is in it, so that it is
//! never less than half full.
//!
//! The place of a word and what it holds of the hash tell together where it belongs in a larger table, so that a table can
//! grow without a look at the keys, which lie anywhere in memory. It looks at those alone that are not where they belong
//! because there was no room, and at all of them only once in many times.
//!
//! A table that grows has to move all that is in it, which takes long if it is large, and the queue waits meanwhile. So a
//! large index is many tables, each of which grows on its own.

use super::keys::Slot;

pub(super) struct Index {
    tables: Vec<Table>,
}

const TABLE_BITS: u32 = 10;
/// How many slots are too many for one table.
const LARGE: usize = 1 << 16;

/// So many slots are hashed at a time.
const BATCH: usize = 64;

/// What hashes the keys of slots, as many as it is given at a time.
pub(super) trait Rehash: Fn(&[Slot], &mut [u64]) {}

impl<F: Fn(&[Slot], &mut [u64])> Rehash for F {}

impl Index {
    pub(super) fn new() -> Self {
        Index { tables: vec![Table::default()] }
    }

    /// The slot with that hash for which the question is answered with yes.
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        self.tables[self.number(hash)].find(hash, is_it)
    }

    /// Puts in a slot that is not here.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot, rehash: impl Rehash) {
        if self.tables.len() == 1 && self.tables[0].len >= LARGE {
            let all = std::mem::take(&mut self.tables[0]);
            self.tables.resize_with(1 << TABLE_BITS, Table::default);
            all.each(&rehash, |hash, slot| {
                let number = self.number(hash);
                self.tables[number].insert(hash, slot, &rehash);
            });
        }
        let number = self.number(hash);
        self.tables[number].insert(hash, slot, &rehash);
    }

    /// Takes out a slot that is here.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot, rehash: impl Rehash) {
        let number = self.number(hash);
        self.tables[number].remove(hash, slot, &rehash);
    }

    /// A table goes by ten bits of the hash, its lines by those above, and its words by those below.
    fn number(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.tables.len() - 1)
    }
}

const WORDS: usize = 16;

#[derive(Clone)]
#[repr(align(64))]
struct Line([u32; WORDS]);

/// A word that has never been used since the table was made.
const EMPTY: u32 = u32::MAX;
/// A word that is free again in a line that was full: what did not find room in it is in one of the next lines.
const GONE: u32 = u32::MAX - 1;

/// Of the sixteen words of a line, so many are used at most, on average.
const MOST: usize = 14;
/// A table of no more lines than this is not made smaller.
const FEW_LINES: usize = 4;
/// Bits of a hash that choose a line, at most.
const LINE_BITS: u32 = u64::BITS - 32 - TABLE_BITS;
/// So many bits of a tag that differ within a line are enough. With fewer, other keys have the same one too often.
const TELLING_BITS: u32 = 7;
/// So many bits, beside those that name a line, make lines evenly full.
const EVEN_BITS: u32 = 4;

/// Slots are below 2,147,483,646, which is more than there is memory for.
///
/// A line is chosen by the first bits of the hash, as a fraction of one: the line that is so far down the table. From the low
/// end, a word is made of a slot, of a bit that says whether it is in another line than the one it belongs to, and of a tag:
/// the last bits of the fraction.
#[derive(Default)]
struct Table {
    lines: Lines,
    slot_bits: u32,
    fraction_bits: u32,
    len: usize,
    /// Words that are not empty.
    used: usize,
}

impl Table {
    fn find(&self, hash: u64, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let fraction = self.fraction(hash);
        let (tag, tags, slots) = (self.tag(fraction), self.tag(u64::MAX), self.slots());
        let mut at = self.home(fraction);
        for _ in 0..self.lines.len() {
            let Line(words) = self.lines.get(at);
            let mut hits = matches(words, tags, tag);
            while hits != 0 {
                let word = words[hits.trailing_zeros() as usize];
                if word < GONE && is_it(word & slots) {
                    return Some(word & slots);
                }
                hits &= hits - 1;
            }
            if matches(words, u32::MAX, EMPTY) != 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    fn insert(&mut self, hash: u64, slot: Slot, rehash: &impl Rehash) {
        if self.used >= self.lines.len() * MOST || !self.fits(slot) {
            self.rebuild(slot, rehash);
        }
        self.put(self.fraction(hash), slot);
    }

    fn put(&mut self, fraction: u64, slot: Slot) {
        let home = self.home(fraction);
        let mut at = home;
        // Some words are always empty.
        loop {
            let Line(words) = self.lines.get_mut(at);
            if let Some(place) = words.iter().position(|word| *word >= GONE) {
                self.used += usize::from(words[place] == EMPTY);
                self.len += 1;
                let elsewhere = if at == home { 0 } else { self.elsewhere() };
                self.lines.get_mut(at).0[place] = self.tag(fraction) | elsewhere | slot;
                return;
            }
            at = self.after(at);
        }
    }

    fn remove(&mut self, hash: u64, slot: Slot, rehash: &impl Rehash) {
        let fraction = self.fraction(hash);
        let (wanted, bits) = (self.tag(fraction) | slot, !self.elsewhere());
        let mut at = self.home(fraction);
        for _ in 0..self.lines.len() {
            let Line(words) = self.lines.get_mut(at);
            let is_open = matches(words, u32::MAX, EMPTY) != 0;
            let hits = matches(words, bits, wanted);
            if hits != 0 {
                words[hits.trailing_zeros() as usize] = if is_open { EMPTY } else { GONE };
                self.used -= usize::from(is_open);
                self.len -= 1;
                break;
            }
            if is_open {
                break;
            }
            at = self.after(at);
        }
        // What a burst has left behind is given back, and not so soon that it would have to be asked for again.
        if self.lines.len() > FEW_LINES && self.len < self.lines.len() * MOST / 8 {
            self.rebuild(0, rehash);
        }
    }

    /// Makes the table as large as it should be for what is in it, and such that `slot` fits into a word.
    fn rebuild(&mut self, slot: Slot, rehash: &impl Rehash) {
        let lines = (self.len + self.len / 2 + 1).div_ceil(MOST);
        let old = std::mem::take(self);
        self.lines = Lines::new(lines);
        self.slot_bits = if old.fits(slot) { old.slot_bits } else { slot_bits(slot) };
        let tag_bits = u32::BITS - 1 - self.slot_bits;
        let needed = lines.ilog2() + TELLING_BITS.min(tag_bits.saturating_sub(1));
        if old.tells_fractions() && old.fraction_bits >= needed {
            self.fraction_bits = old.fraction_bits;
            old.each_fraction(rehash, |fraction, slot| self.put(fraction, slot));
        } else {
            // As many as the place and the tag tell, and never so few that some lines would be fuller than others.
            self.fraction_bits = (lines.ilog2() + tag_bits.max(EVEN_BITS)).min(LINE_BITS);
            old.each(rehash, |hash, slot| self.put(self.fraction(hash), slot));
        }
    }

    /// Calls with every slot and the hash of its key.
    fn each(&self, rehash: &impl Rehash, call: impl FnMut(u64, Slot)) {
        let mut batch = Batch::new(rehash, call);
        self.words().for_each(|(_, word)| batch.push(word & self.slots()));
        batch.flush();
    }

    /// Calls with every slot and its fraction.
    fn each_fraction(&self, rehash: &impl Rehash, mut call: impl FnMut(u64, Slot)) {
        for (at, word) in self.words().filter(|(_, word)| word & self.elsewhere() == 0) {
            // Of the fractions that belong into this line there is one that ends like this.
            let first = ((at as u64) << self.fraction_bits).div_ceil(self.lines.len() as u64);
            let end = u64::from(word) >> (self.slot_bits + 1);
            let tags = (1 << (u32::BITS - 1 - self.slot_bits)) - 1;
            call(first + (end.wrapping_sub(first) & tags), word & self.slots());
        }
        let mut batch = Batch::new(rehash, |hash, slot| call(self.fraction(hash), slot));
        let elsewhere = self.words().filter(|(_, word)| word & self.elsewhere() != 0);
        elsewhere.for_each(|(_, word)| batch.push(word & self.slots()));
        batch.flush();
    }

    /// The words that are slots, and the numbers of their lines.
    fn words(&self) -> impl Iterator<Item = (usize, u32)> {
        let lines = self.lines.iter().enumerate();
        lines.flat_map(|(at, line)| line.0.iter().map(move |word| (at, *word))).filter(|(_, word)| *word < GONE)
    }

    /// Whether no more fractions belong into a line than there are tags.
    fn tells_fractions(&self) -> bool {
        let fractions_to_a_tag = 1 << (self.fraction_bits + self.slot_bits + 1).saturating_sub(u32::BITS);
        self.lines.len() > 0 && self.lines.len() as u64 >= fractions_to_a_tag
    }

    fn fraction(&self, hash: u64) -> u64 {
        hash >> (u64::BITS - LINE_BITS) >> (LINE_BITS - self.fraction_bits)
    }

    fn home(&self, fraction: u64) -> usize {
        ((fraction * self.lines.len() as u64) >> self.fraction_bits) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.lines.len() { 0 } else { at + 1 }
    }

    fn tag(&self, fraction: u64) -> u32 {
        (fraction << (self.slot_bits + 1)) as u32
    }

    fn elsewhere(&self) -> u32 {
        1 << self.slot_bits
    }

    fn slots(&self) -> u32 {
        self.elsewhere() - 1
    }

    /// Whether there is room for a slot, and it differs from a word that is free, whatever its tag.
    fn fits(&self, slot: Slot) -> bool {
        slot < self.slots().saturating_sub(1)
    }
}

/// So many lines are in one piece.
const PIECE: usize = 32;

/// The lines of a table, in pieces of one size: what a table leaves behind when it grows is of use to the next one, and nothing
/// is left in between that is of no use to anybody.
#[derive(Default)]
struct Lines {
    pieces: Vec<Box<[Line]>>,
    len: usize,
}

impl Lines {
    fn new(len: usize) -> Self {
        let piece = |first| vec![Line([EMPTY; WORDS]); PIECE.min(len - first)].into_boxed_slice();
        Lines { pieces: (0..len).step_by(PIECE).map(piece).collect(), len }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, at: usize) -> &Line {
        &self.pieces[at / PIECE][at % PIECE]
    }

    fn get_mut(&mut self, at: usize) -> &mut Line {
        &mut self.pieces[at / PIECE][at % PIECE]
    }

    fn iter(&self) -> impl Iterator<Item = &Line> {
        self.pieces.iter().flatten()
    }
}

/// Which words are like `wanted` in these bits: a bit for each.
fn matches(words: &[u32; WORDS], bits: u32, wanted: u32) -> u32 {
    words.iter().enumerate().fold(0, |hits, (at, word)| hits | u32::from(word & bits == wanted) << at)
}

/// How many bits hold slots of up to twice this one, and of up to a million in any case.
fn slot_bits(slot: Slot) -> u32 {
    (u32::BITS - (slot | 0xf_ffff).leading_zeros() + 1).min(u32::BITS - 1)
}

/// Slots whose keys are to be hashed together.
struct Batch<'r, R, C> {
    slots: [Slot; BATCH],
    count: usize,
    rehash: &'r R,
    call: C,
}

impl<'r, R: Rehash, C: FnMut(u64, Slot)> Batch<'r, R, C> {
    fn new(rehash: &'r R, call: C) -> Self {
        Batch { slots: [0; BATCH], count: 0, rehash, call }
    }

    fn push(&mut self, slot: Slot) {
        self.slots[self.count] = slot;
        self.count += 1;
        if self.count == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let slots = &self.slots[..self.count];
        let mut hashes = [0; BATCH];
        (self.rehash)(slots, &mut hashes[..slots.len()]);
        hashes.iter().zip(slots).for_each(|(hash, slot)| (self.call)(*hash, *slot));
        self.count = 0;
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
