//! All keys of a queue, each with one [`Entry`].
//!
//! A key that is ready, delayed, in flight or idle with failures has one entry, and other structures refer to it by its slot. A
//! key is therefore hashed, compared and stored once. For keys of 48 bytes an entry is one cache line.

use std::hash::{BuildHasher, Hash};
use std::hint::black_box;

use rapidhash::quality::RandomState;

use super::index::{Index, half};
use super::time::Time;

/// The index of an entry.
pub(crate) type Slot = u32;

/// The slot of no entry.
pub(crate) const NONE: Slot = Slot::MAX;

/// The `next` of an entry that was never in a ring: its `prev` is the hash of the key.
const HASHED: Slot = NONE - 1;

/// The state of one key.
pub(crate) struct Entry<K> {
    /// None if the slot is free.
    key: Option<K>,
    word: u64,
    /// The neighbours in the ring of the entry: a ring of the timing wheel, or the idle ring. [`HASHED`] and a hash, or [`NONE`],
    /// without a ring. In a free slot, `next` is the next free slot of the page.
    next: Slot,
    prev: Slot,
}

/// A flag of a key. Flags, failures and a time share one word of the entry.
///
/// | Dirty | Processing | Waiting | the key |
/// |---|---|---|---|
/// | | | | is idle: it has failures and nothing else |
/// | yes | | | is ready |
/// | | yes | | is in flight |
/// | yes | yes | | is in flight, and was added since |
/// | any | any | yes | is delayed, too; for a ready key only with [`OnReadd::Keep`](crate::OnReadd::Keep) |
///
/// `Backoff` marks a key that is delayed by a failure, or was until an add ended the delay
/// ([`OnReadd::Merge`](crate::OnReadd::Merge)). `Cut` implies `Backoff`, and `Early` implies `Processing`.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// The key needs processing: it is ready or, if in flight, will be after its run.
    Dirty = 1,
    /// The key is in flight.
    Processing = 1 << 1,
    /// The key is in the timing wheel and becomes dirty at its time.
    Waiting = 1 << 2,
    /// The time of the entry is the end of a backoff.
    Backoff = 1 << 3,
    /// An add cut that backoff short.
    Cut = 1 << 4,
    /// The key was handed out before the end of its backoff.
    Early = 1 << 5,
}

const FLAGS: u32 = 6;
const FAILURE_BITS: u32 = 12;
const MOST_FAILURES: u64 = (1 << FAILURE_BITS) - 1;
const TIME_SHIFT: u32 = FLAGS + FAILURE_BITS;
const _: () = assert!(TIME_SHIFT + Time::BITS == u64::BITS);

impl<K> Entry<K> {
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.word & flag as u64 != 0
    }

    pub(crate) fn set(&mut self, flag: Flag) {
        self.word |= flag as u64;
    }

    pub(crate) fn clear(&mut self, flag: Flag) {
        self.word &= !(flag as u64);
    }

    pub(crate) fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// Returns the next slot of the ring, if the entry is in one.
    pub(crate) fn next(&self) -> Option<Slot> {
        Some(self.next).filter(|next| *next < HASHED)
    }

    /// Returns the consecutive failures, at most 4,095.
    pub(crate) fn failures(&self) -> u32 {
        ((self.word >> FLAGS) & MOST_FAILURES) as u32
    }

    pub(crate) fn set_failures(&mut self, failures: u32) {
        let failures = u64::from(failures).min(MOST_FAILURES);
        self.word = self.word & !(MOST_FAILURES << FLAGS) | failures << FLAGS;
    }

    /// Returns the time, whose meaning is the first of these that applies:
    ///
    /// - Delayed: the due time.
    /// - In backoff, and added meanwhile: the end of the backoff or, if it was cut short, the time of the cut.
    /// - Dirty: since when, or [`Time::LAST`] if unknown.
    /// - Idle: when its failures expire.
    ///
    /// Otherwise it is unused.
    pub(crate) fn time(&self) -> Time {
        Time::from_ticks(self.word >> TIME_SHIFT)
    }

    pub(crate) fn set_time(&mut self, time: Time) {
        self.word = self.word & ((1 << TIME_SHIFT) - 1) | time.ticks_up() << TIME_SHIFT;
    }
}

const PAGE_BITS: u32 = 10;
const PAGE: usize = 1 << PAGE_BITS;
const BLOCK: usize = 8;

/// Entries aligned to a cache line. There is no padding between blocks: the size of an entry is a multiple of eight.
#[repr(align(64))]
struct Block<K>([Entry<K>; BLOCK]);

struct Page<K> {
    /// Grows to its full size; an entry never changes its page.
    blocks: Vec<Block<K>>,
    free: Slot,
    used: u16,
}

impl<K> Page<K> {
    const fn new() -> Self {
        Page { blocks: Vec::new(), free: NONE, used: 0 }
    }

    /// Returns a free position. The page has one, or room for one.
    fn take_position(&mut self) -> usize {
        if self.free == NONE {
            let first = self.blocks.len() * BLOCK;
            let vacant = |at| {
                let next = if at + 1 < BLOCK { (first + at + 1) as Slot } else { NONE };
                Entry { key: None, word: 0, next, prev: NONE }
            };
            self.blocks.push(Block(std::array::from_fn(vacant)));
            self.free = first as Slot;
        }
        let position = self.free as usize;
        self.free = self.entry(position).next;
        self.used += 1;
        position
    }

    fn entry(&self, position: usize) -> &Entry<K> {
        &self.blocks[position / BLOCK].0[position % BLOCK]
    }

    fn entry_mut(&mut self, position: usize) -> &mut Entry<K> {
        &mut self.blocks[position / BLOCK].0[position % BLOCK]
    }
}

/// The entries, in pages that are freed when empty, and the index that finds them by key.
pub(crate) struct Keys<K> {
    pages: Vec<Page<K>>,
    /// Pages with free slots; the last one is filled next.
    roomy: Vec<u32>,
    /// The page that became empty last, which is kept.
    spare: Option<u32>,
    index: Index,
    hasher: RandomState,
    count: usize,
}

impl<K: Hash + Eq> Keys<K> {
    pub(crate) fn new(hasher: RandomState) -> Self {
        Keys { pages: Vec::new(), roomy: Vec::new(), spare: None, index: Index::new(), hasher, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<Slot> {
        self.index.find(half(hash), |slot| self.entry(slot).key.as_ref() == Some(key))
    }

    /// Reads what lookups of these hashes will read, if that is probably not in the cache.
    pub(crate) fn warm_hashes(&self, hashes: impl Iterator<Item = u64>) {
        if self.index.is_large() {
            black_box(hashes.fold(0, |sum, hash| sum ^ self.index.touch(half(hash))));
        }
    }

    /// Reads what removals of these slots will read, if that is probably not in the cache.
    pub(crate) fn warm_slots(&self, slots: impl Iterator<Item = Slot>) {
        if self.index.is_large() {
            let entries = slots.filter_map(|slot| self.get(slot)).filter(|entry| entry.next == HASHED);
            black_box(entries.fold(0, |sum, entry| sum ^ self.index.touch(entry.prev)));
        }
    }

    /// Inserts a key that has no entry.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, key: K) -> Slot {
        let number = match self.roomy.last() {
            Some(number) => *number,
            None => {
                let number = self.pages.len() as u32;
                self.pages.push(Page::new());
                self.roomy.push(number);
                number
            }
        };
        let page = &mut self.pages[number as usize];
        // The first page grows in steps, so that a small queue stays small.
        if number > 0 && page.blocks.is_empty() {
            page.blocks.reserve_exact(PAGE / BLOCK);
        }
        let position = page.take_position();
        let half = half(hash);
        *page.entry_mut(position) = Entry { key: Some(key), word: 0, next: HASHED, prev: half };
        if usize::from(page.used) == PAGE {
            self.roomy.pop();
        }
        self.count += 1;
        let slot = number << PAGE_BITS | position as u32;
        self.index.insert(half, slot);
        slot
    }

    /// Removes a key and returns it.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<K> {
        let number = slot >> PAGE_BITS;
        let position = slot & (PAGE as u32 - 1);
        let page = self.pages.get_mut(number as usize)?;
        let entry = &mut page.blocks.get_mut(position as usize / BLOCK)?.0[position as usize % BLOCK];
        // Hashing is user code and may panic: it runs before any change.
        let half = match (entry.next, &entry.key) {
            (_, None) => return None,
            (HASHED, Some(_)) => entry.prev,
            (_, Some(key)) => half(self.hasher.hash_one(key)),
        };
        let key = entry.key.take();
        entry.next = std::mem::replace(&mut page.free, position);
        self.index.remove(half, slot);
        self.count -= 1;
        if usize::from(page.used) == PAGE {
            self.roomy.push(number);
        }
        page.used -= 1;
        if page.used == 0 {
            let spare = self.spare.replace(number).filter(|spare| *spare != number);
            if let Some(spare) = spare.map(|spare| &mut self.pages[spare as usize])
                && spare.used == 0
            {
                *spare = Page::new();
            }
        }
        key
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<&K> {
        self.entry(slot).key.as_ref()
    }

    /// Returns whether the slot has a key.
    pub(crate) fn holds(&self, slot: Slot) -> bool {
        self.get(slot).is_some()
    }

    /// Returns the entry, if the slot has a key.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<K>> {
        let page = self.pages.get((slot >> PAGE_BITS) as usize)?;
        let block = page.blocks.get(slot as usize % PAGE / BLOCK)?;
        Some(&block.0[slot as usize % BLOCK]).filter(|entry| entry.key.is_some())
    }

    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<K>> {
        let page = self.pages.get_mut((slot >> PAGE_BITS) as usize)?;
        let block = page.blocks.get_mut(slot as usize % PAGE / BLOCK)?;
        Some(&mut block.0[slot as usize % BLOCK]).filter(|entry| entry.key.is_some())
    }

    /// Returns the slots of a page, used or not; `None` beyond the last page.
    pub(crate) fn page(&self, page: usize) -> Option<std::ops::Range<Slot>> {
        let used = self.pages.get(page)?.blocks.len() * BLOCK;
        let first = (page << PAGE_BITS) as Slot;
        Some(first..first + used as Slot)
    }

    pub(crate) fn entry(&self, slot: Slot) -> &Entry<K> {
        self.pages[(slot >> PAGE_BITS) as usize].entry(slot as usize % PAGE)
    }

    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry<K> {
        self.pages[(slot >> PAGE_BITS) as usize].entry_mut(slot as usize % PAGE)
    }

    /// Appends the entry to a ring and returns the new head of the ring.
    pub(crate) fn link(&mut self, head: Slot, slot: Slot) -> Slot {
        if head == NONE {
            let entry = self.entry_mut(slot);
            (entry.next, entry.prev) = (slot, slot);
            return slot;
        }
        let tail = std::mem::replace(&mut self.entry_mut(head).prev, slot);
        self.entry_mut(tail).next = slot;
        let entry = self.entry_mut(slot);
        (entry.next, entry.prev) = (head, tail);
        head
    }

    /// Removes the entry from a ring and returns the new head of the ring.
    pub(crate) fn unlink(&mut self, head: Slot, slot: Slot) -> Slot {
        let entry = self.entry_mut(slot);
        let next = std::mem::replace(&mut entry.next, NONE);
        let prev = std::mem::replace(&mut entry.prev, NONE);
        if next == slot {
            return NONE;
        }
        self.entry_mut(prev).next = next;
        self.entry_mut(next).prev = prev;
        if head == slot { next } else { head }
    }
}

#[cfg(test)]
mod tests;
