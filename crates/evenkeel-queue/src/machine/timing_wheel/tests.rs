//! The timing wheel against an ordered map.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use proptest::prelude::*;
use rapidhash::quality::RandomState;

use super::super::keys::{Keys, Slot};
use super::super::time::Time;
use super::*;

/// The wheel, and its expected contents: by time, then in insertion order.
struct Both {
    wheel: TimingWheel,
    keys: Keys<u32>,
    order: BTreeSet<(u64, u64, Slot)>,
    entries: BTreeMap<Slot, (u64, u64)>,
    number: u64,
    now: u64,
}

impl Both {
    fn new(count: u32, now: u64) -> Self {
        let hasher = RandomState::default();
        let mut keys = Keys::new(hasher);
        for key in 0..count {
            keys.insert(hasher.hash_one(key), key);
        }
        Both { wheel: TimingWheel::new(), keys, order: BTreeSet::new(), entries: BTreeMap::new(), number: 0, now }
    }

    /// Inserts a key, or moves it to another time.
    fn insert(&mut self, slot: Slot, wait: u64) {
        let time = (self.now + wait).min(Time::LAST.ticks());
        if time <= self.now {
            return;
        }
        self.remove(slot);
        self.number += 1;
        self.order.insert((time, self.number, slot));
        self.entries.insert(slot, (time, self.number));
        self.wheel.insert(&mut self.keys, slot, Time::from_ticks(time), Time::from_ticks(self.now));
    }

    fn remove(&mut self, slot: Slot) {
        if let Some((time, number)) = self.entries.remove(&slot) {
            self.order.remove(&(time, number, slot));
            self.wheel.remove(&mut self.keys, slot);
        }
    }

    /// Removes due keys within the effort. Returns whether all due keys were removed.
    fn pop(&mut self, mut effort: usize) -> bool {
        while let Some(slot) = self.wheel.pop_due(&mut self.keys, Time::from_ticks(self.now), &mut effort) {
            let (time, number, first) = self.order.pop_first().expect("something is in the wheel");
            assert_eq!((slot, self.keys.entry(slot).time().ticks()), (first, time), "number {number} is next");
            assert!(time <= self.now, "it is due");
            self.entries.remove(&slot);
        }
        let is_all = effort > 0;
        if is_all {
            assert!(self.first().is_none_or(|time| time > self.now), "nothing else is due");
            assert!(self.wheel.next_time().is_none_or(|time| time.ticks() > self.now), "and the wheel knows");
        }
        is_all
    }

    fn first(&self) -> Option<u64> {
        self.order.first().map(|(time, ..)| *time)
    }

    fn compare(&self) {
        assert_eq!(self.wheel.len(), self.order.len());
        let next = self.wheel.next_time().map(Time::ticks);
        assert_eq!(next.is_some(), self.first().is_some());
        assert!(next <= self.first(), "{next:?} is after the first, {:?}", self.first());
    }
}

/// Waits and steps of all sizes, most of them small, so that keys meet.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..4_u64,
        4 => 0..70_u64,
        3 => 0..5_000_u64,
        2 => (0..64_u64).prop_map(|n| n << 12),
        1 => 0..1_u64 << 30,
        1 => (0..46_u32).prop_map(|bits| 1 << bits),
    ]
}

#[derive(Clone, Debug)]
enum WheelStep {
    Insert(Slot, u64),
    Remove(Slot),
    Pass(u64),
    Pop(usize),
}

fn step(count: u32) -> impl Strategy<Value = WheelStep> {
    prop_oneof![
        5 => (0..count, span()).prop_map(|(slot, wait)| WheelStep::Insert(slot, wait)),
        2 => (0..count).prop_map(WheelStep::Remove),
        1 => span().prop_map(WheelStep::Pass),
        3 => (0..6_usize).prop_map(WheelStep::Pop),
        1 => Just(WheelStep::Pop(usize::MAX)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_due_by_time_and_then_in_insertion_order(
        begin in prop_oneof![Just(0), span()],
        steps in prop::collection::vec(step(48), 1..400),
    ) {
        let mut both = Both::new(48, begin);
        for step in steps {
            match step {
                WheelStep::Insert(slot, wait) => both.insert(slot, wait),
                WheelStep::Remove(slot) => both.remove(slot),
                WheelStep::Pass(span) => both.now = (both.now + span).min(Time::LAST.ticks()),
                WheelStep::Pop(effort) => _ = both.pop(effort),
            }
            both.compare();
        }
        both.now = Time::LAST.ticks();
        while !both.pop(3) {
            both.compare();
        }
        prop_assert_eq!(both.wheel.len(), 0);
    }
}

#[test]
fn a_key_added_while_a_ring_is_spread_follows_keys_of_its_time() {
    let mut both = Both::new(8, 0);
    (0..4).for_each(|slot| both.insert(slot, 5_000));
    both.insert(4, 4_096);
    both.now = 4_096;
    // One step takes the ring, the next one spreads one key of it.
    assert!(!both.pop(2));
    both.insert(5, 5_000 - 4_096);
    both.now = 5_000;
    assert!(both.pop(100));
    both.compare();
}

#[test]
fn the_next_time_is_exact_when_few_wait_and_never_late_when_many_do() {
    let mut both = Both::new(1_000, 0);
    both.insert(0, 100);
    (1..20).for_each(|slot| both.insert(slot, 1_000_000 + u64::from(slot)));
    both.now = 100;
    assert!(both.pop(usize::MAX));
    assert_eq!(both.wheel.next_time().map(Time::ticks), Some(1_000_001));
    (20..1_000).for_each(|slot| both.insert(slot, 1_000_000 + u64::from(slot)));
    // Polling at the returned times reaches the first key in a few polls.
    for _ in 0..DIGITS {
        let next = both.wheel.next_time().expect("there are keys").ticks();
        assert!(both.first().is_some_and(|first| next <= first));
        both.now = next;
        both.pop(usize::MAX);
    }
    assert!(both.now > 1_000_000, "still looking at {}", both.now);
}
