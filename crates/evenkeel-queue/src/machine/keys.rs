//! Every key the queue knows, once, with what is known about it.
//!
//! A key that is queued, waiting, being processed, or remembered for its failures has one [`Entry`], and everything else
//! speaks of it by the number of its slot. So a key is hashed once, compared once and stored once, whatever happens to it.
//! For keys of 48 bytes an entry is one line of the cache.

use std::hash::{BuildHasher, Hash};

use rapidhash::quality::RandomState;

use super::index::Index;
use super::time::Time;

/// The number of an entry.
pub(crate) type Slot = u32;

/// The number of no entry.
pub(crate) const NONE: Slot = Slot::MAX;

/// What is known about one key.
pub(crate) struct Entry<K> {
    /// None if the slot is free.
    key: Option<K>,
    word: u64,
    /// The neighbours in the ring that the entry is in: one of the rings of those that wait, or the ring of the idle. In a free
    /// slot, `next` is the next free one of the page.
    next: Slot,
    prev: Slot,
}

/// One of the facts about a key. Together with a time and a number they share a word of the entry.
///
/// | Dirty | Processing | Waiting | the key |
/// |---|---|---|---|
/// | | | | is idle: it has failures, and nothing else is known of it |
/// | yes | | | is ready |
/// | | yes | | is with a worker |
/// | yes | yes | | is with a worker, and was added since |
/// | any | any | yes | waits too, which a ready one does only by [`OnReadd::Keep`](crate::OnReadd::Keep) |
///
/// `Backoff` is about a key that waits because it has failed, or that does so no longer because it was added
/// ([`OnReadd::Merge`](crate::OnReadd::Merge)). `Cut` comes with `Backoff`, and `Early` with `Processing`.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// It needs processing: it is in the order or, if it is being processed, will be when that ends.
    Dirty = 1,
    /// A worker has it.
    Processing = 1 << 1,
    /// It is in one of the rings of those that wait, to become dirty at its time.
    Waiting = 1 << 2,
    /// The time of the entry is the end of a backoff.
    Backoff = 1 << 3,
    /// Something else made that backoff end too soon.
    Cut = 1 << 4,
    /// The worker got it before its backoff was over.
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

    /// The next one in the ring that the entry is in, if it is in one.
    pub(crate) fn next(&self) -> Option<Slot> {
        Some(self.next).filter(|next| *next != NONE)
    }

    /// Failures in a row, at most 4,095.
    pub(crate) fn failures(&self) -> u32 {
        ((self.word >> FLAGS) & MOST_FAILURES) as u32
    }

    pub(crate) fn set_failures(&mut self, failures: u32) {
        let failures = u64::from(failures).min(MOST_FAILURES);
        self.word = self.word & !(MOST_FAILURES << FLAGS) | failures << FLAGS;
    }

    /// What that is depends on the key. The first of these that holds:
    ///
    /// - It waits: the deadline.
    /// - It backs off, and was added meanwhile: when the backoff is over or, if it was cut short, when it was.
    /// - It is dirty: since when, or [`Time::LAST`] if that is not known any more.
    /// - It is idle: when its failures are forgotten.
    ///
    /// Otherwise it means nothing.
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

/// Entries of which the first begins with a line of the cache. Nothing is lost between two blocks, since the size of an entry
/// is a multiple of eight.
#[repr(align(64))]
struct Block<K>([Entry<K>; BLOCK]);

struct Page<K> {
    /// Grows to its full size; an entry never moves to another page.
    blocks: Vec<Block<K>>,
    free: Slot,
    used: u16,
}

impl<K> Page<K> {
    const fn new() -> Self {
        Page { blocks: Vec::new(), free: NONE, used: 0 }
    }

    /// A free place. There is one, or room for one.
    fn take_place(&mut self) -> usize {
        if self.free == NONE {
            let first = self.blocks.len() * BLOCK;
            let vacant = |at| {
                let next = if at + 1 < BLOCK { (first + at + 1) as Slot } else { NONE };
                Entry { key: None, word: 0, next, prev: NONE }
            };
            self.blocks.push(Block(std::array::from_fn(vacant)));
            self.free = first as Slot;
        }
        let place = self.free as usize;
        self.free = self.entry(place).next;
        self.used += 1;
        place
    }

    fn entry(&self, place: usize) -> &Entry<K> {
        &self.blocks[place / BLOCK].0[place % BLOCK]
    }

    fn entry_mut(&mut self, place: usize) -> &mut Entry<K> {
        &mut self.blocks[place / BLOCK].0[place % BLOCK]
    }
}

/// The entries, in pages that are given back when nothing is left in them, and the index that finds them by key.
pub(crate) struct Keys<K> {
    pages: Vec<Page<K>>,
    /// Pages that have room, the last of them to be filled next.
    roomy: Vec<u32>,
    /// The page that was the last to become empty. It is kept for what comes next.
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
        self.index.find(hash, |slot| self.entry(slot).key.as_ref() == Some(key))
    }

    /// Makes an entry for a key that has none.
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
        // The first page grows little by little, so that a small queue is small.
        if number > 0 && page.blocks.is_empty() {
            page.blocks.reserve_exact(PAGE / BLOCK);
        }
        let place = page.take_place();
        *page.entry_mut(place) = Entry { key: Some(key), word: 0, next: NONE, prev: NONE };
        if usize::from(page.used) == PAGE {
            self.roomy.pop();
        }
        self.count += 1;
        let slot = number << PAGE_BITS | place as u32;
        self.index.insert(hash, slot);
        slot
    }

    /// Forgets a key altogether, and gives it back.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<K> {
        // Hashing is code of the user's, so it comes before all else.
        let hash = self.key(slot).map(|key| self.hasher.hash_one(key))?;
        self.index.remove(hash, slot);
        self.count -= 1;
        let number = slot >> PAGE_BITS;
        let place = slot & (PAGE as u32 - 1);
        let page = &mut self.pages[number as usize];
        let next = std::mem::replace(&mut page.free, place);
        let entry = page.entry_mut(place as usize);
        let key = entry.key.take();
        entry.next = next;
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

    /// Whether there is a key of that number.
    pub(crate) fn holds(&self, slot: Slot) -> bool {
        let page = self.pages.get((slot >> PAGE_BITS) as usize);
        let block = page.and_then(|page| page.blocks.get(slot as usize % PAGE / BLOCK));
        block.is_some_and(|block| block.0[slot as usize % BLOCK].key.is_some())
    }

    pub(crate) fn entry(&self, slot: Slot) -> &Entry<K> {
        self.pages[(slot >> PAGE_BITS) as usize].entry(slot as usize % PAGE)
    }

    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry<K> {
        self.pages[(slot >> PAGE_BITS) as usize].entry_mut(slot as usize % PAGE)
    }

    /// Puts the entry at the end of a ring, and answers with the ring's new head.
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

    /// Takes the entry out of a ring, and answers with the ring's new head.
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
