//! The entries and their index against a hash map.

use std::collections::HashMap;

use super::*;
use crate::machine::index::{LARGE, TABLES, Table};

struct Both {
    keys: Keys<u64>,
    hasher: RandomState,
    slots: HashMap<u64, Slot>,
    owners: HashMap<Slot, u64>,
}

impl Both {
    fn new() -> Self {
        let hasher = RandomState::default();
        Both { keys: Keys::new(hasher), hasher, slots: HashMap::new(), owners: HashMap::new() }
    }

    /// Inserts a key with known flags.
    fn insert(&mut self, key: u64) {
        let hash = self.hasher.hash_one(key);
        let found = self.keys.find(hash, &key);
        assert_eq!(found, self.slots.get(&key).copied());
        if found.is_none() {
            let slot = self.keys.insert(hash, key);
            assert_eq!(self.owners.insert(slot, key), None, "the slot was free");
            self.slots.insert(key, slot);
            let entry = self.keys.entry_mut(slot);
            assert_eq!((entry.failures(), entry.time(), entry.next()), (0, Time::ZERO, None), "nothing is left behind");
            entry.set_failures(key as u32 % 4_000);
            entry.set_time(Time::from_ticks(key));
            entry.set(Flag::Cut);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(&key) {
            self.owners.remove(&slot);
            self.keys.remove(slot);
        }
    }

    fn check(&self, key: u64) {
        let found = self.keys.find(self.hasher.hash_one(key), &key);
        assert_eq!(found, self.slots.get(&key).copied());
        assert_eq!(self.keys.len(), self.slots.len());
        if let Some(slot) = found {
            let entry = self.keys.entry(slot);
            assert_eq!(self.keys.key(slot), Some(&key));
            assert_eq!((entry.failures(), entry.time().ticks()), (key as u32 % 4_000, key));
            assert!(entry.has(Flag::Cut) && !entry.has(Flag::Early) && !entry.has(Flag::Dirty));
        }
    }

    fn check_all(&self) {
        for (key, slot) in &self.slots {
            assert_eq!(self.keys.find(self.hasher.hash_one(key), key), Some(*slot));
        }
    }

    /// Returns the number of allocated pages, and the capacity of the tables.
    fn size(&self) -> (usize, usize) {
        let pages = self.keys.pages.iter().filter(|page| page.blocks.capacity() > 0).count();
        let room = self.keys.index.tables.iter().map(Table::capacity).sum();
        (pages, room)
    }
}

#[test]
fn keys_are_found_after_inserts_and_removals() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut both = Both::new();
        let range = [10, 300, 3_000][seed as usize % 3];
        for _ in 0..40 {
            // The map is filled and emptied in turns.
            let growth = rng.u8(..100);
            for _ in 0..rng.usize(..400) {
                let key = rng.u64(..range);
                if rng.u8(..100) < growth {
                    both.insert(key)
                } else {
                    both.remove(key)
                }
                both.check(rng.u64(..range));
            }
            both.check_all();
        }
    }
}

#[test]
fn many_keys_are_found_and_their_memory_is_freed() {
    let count = 3 * LARGE as u64 / 2;
    let mut both = Both::new();
    for round in 0..2 {
        for key in 0..count {
            both.insert(key);
        }
        both.check_all();
        assert_eq!(both.keys.index.tables.len(), TABLES);
        assert_eq!(both.size().0, (count as usize).div_ceil(PAGE), "pages are full before there are more");
        // The remaining keys are spread over the first pages.
        let stays = |key: u64| key < 1_000 && key % 7 == round;
        (0..count).filter(|key| !stays(*key)).for_each(|key| both.remove(key));
        both.check_all();
        let (pages, room) = both.size();
        assert!(pages <= 1_000 / PAGE + 2, "{pages} pages for {} keys", both.keys.len());
        assert!(room <= 512 * TABLES, "room for {room} in the tables");
    }
    (0..count).for_each(|key| both.remove(key));
    assert_eq!((both.keys.len(), both.size().0), (0, 1));
}

#[test]
fn rings_keep_their_order_when_entries_leave() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut both = Both::new();
        (0..20).for_each(|key| both.insert(key));
        let (mut head, mut ring) = (NONE, Vec::new());
        for _ in 0..200 {
            let slot = both.slots[&rng.u64(..20)];
            match ring.iter().position(|other| *other == slot) {
                None => {
                    head = both.keys.link(head, slot);
                    ring.push(slot);
                }
                Some(at) => {
                    head = both.keys.unlink(head, slot);
                    ring.remove(at);
                }
            }
            let mut seen = Vec::new();
            let mut next = Some(head).filter(|head| *head != NONE);
            while let Some(slot) = next {
                seen.push(slot);
                next = both.keys.entry(slot).next().filter(|next| *next != head);
            }
            assert_eq!(seen, ring, "seed {seed}");
        }
    }
}

#[test]
fn flags_failures_and_time_share_a_word_without_touching_each_other() {
    let mut both = Both::new();
    both.insert(0);
    let entry = both.keys.entry_mut(both.slots[&0]);
    entry.set_time(Time::LAST);
    entry.set_failures(u32::MAX);
    assert_eq!((entry.time(), u64::from(entry.failures())), (Time::LAST, MOST_FAILURES));
    entry.set_failures(0);
    entry.clear(Flag::Cut);
    assert_eq!((entry.time(), entry.failures(), entry.has(Flag::Early)), (Time::LAST, 0, false));
    for flag in [Flag::Dirty, Flag::Processing, Flag::Waiting, Flag::Backoff, Flag::Cut, Flag::Early] {
        assert!(!entry.has(flag));
        entry.set(flag);
    }
    assert_eq!((entry.time(), entry.failures()), (Time::LAST, 0));
}

/// As large as an object key, with as many invalid bit patterns.
enum ObjectKey {
    _Inline { _length: u8, _bytes: [u8; 46] },
    _Shared(std::sync::Arc<str>),
}

#[test]
fn an_entry_with_an_object_key_fits_a_cache_line() {
    assert_eq!((size_of::<ObjectKey>(), size_of::<Entry<ObjectKey>>()), (48, 64));
    assert_eq!((size_of::<Block<ObjectKey>>(), align_of::<Block<ObjectKey>>()), (BLOCK * 64, 64));
    assert_eq!(size_of::<Block<String>>(), BLOCK * size_of::<Entry<String>>());
}
