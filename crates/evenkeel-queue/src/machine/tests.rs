//! The machine by itself: cases that its driver cannot cause or observe.

mod against_model;
mod model;
mod ready_order;

use std::hash::BuildHasher;

use super::*;

/// A machine, and the hasher that it shares with its driver.
struct Driven {
    machine: QueueMachine<u32>,
    hasher: RandomState,
}

fn driven() -> Driven {
    driven_with(OnReadd::Keep, OrderRules { share: None, ageing: None, fair: false })
}

fn driven_with(pending: OnReadd, rules: OrderRules) -> Driven {
    let hasher = RandomState::default();
    let settings =
        MachineSettings { rules, ready_order: None, tenant: None, on_readd: pending, memory: Duration::from_secs(60) };
    Driven { machine: QueueMachine::new(settings, hasher), hasher }
}

fn at(ticks: u64) -> Time {
    Time::from_ticks(ticks)
}

impl Driven {
    fn add(&mut self, key: u32, now: u64) {
        self.machine.add(self.hasher.hash_one(key), key, 0, at(now));
    }

    fn add_at(&mut self, key: u32, time: u64, now: u64) {
        self.machine.add_at(self.hasher.hash_one(key), key, 0, at(time), false, at(now));
    }

    fn take(&mut self, now: u64) -> Option<TakenKey<u32>> {
        loop {
            match self.machine.take(at(now)) {
                TakeResult::Taken(taken) => return Some(taken),
                TakeResult::Busy => {}
                TakeResult::Empty | TakeResult::Over => return None,
            }
        }
    }

    fn take_all(&mut self, now: u64) -> Vec<u32> {
        let mut keys = Vec::new();
        while let Some(taken) = self.take(now) {
            self.machine.finish(taken.slot, taken.run, at(now));
            keys.push(taken.key);
        }
        keys
    }
}

#[test]
fn wq_015_finishing_a_removed_key_is_ignored() {
    let mut driven = driven();
    driven.add(1, 0);
    let taken = driven.take(0).unwrap();
    assert_eq!(driven.machine.finish(taken.slot, taken.run, at(5)).0, Time::span(5));
    assert_eq!(driven.machine.finish(taken.slot, taken.run, at(6)), (Duration::ZERO, None));
    assert_eq!(driven.machine.finish(12_345, 0, at(6)), (Duration::ZERO, None), "and so is one that never was");
    assert_eq!(driven.machine.processing(), 0);
}

#[test]
fn wq_016_finishing_a_key_that_is_queued_and_not_processing_is_ignored() {
    let mut driven = driven();
    driven.add(1, 0);
    let taken = driven.take(0).unwrap();
    driven.add(1, 0);
    driven.machine.finish(taken.slot, taken.run, at(0));
    driven.machine.finish(taken.slot, taken.run, at(0));
    assert_eq!((driven.machine.len(), driven.machine.depth()), (1, 1));
    let again = driven.take(0).unwrap();
    assert_eq!(again.key, 1);
    assert!(driven.take(0).is_none(), "there is one copy");
    assert_eq!(driven.machine.processing(), 1);
}

#[test]
fn dq_004_no_timer_remains_after_the_last_due_key() {
    // A key is moved once for each digit of its time: some of these use up the effort of a call with the very last key.
    for (many, time) in [(1, 1), (1023, 1), (1024, 1), (1025, 1), (2048, 63), (681, 5000), (682, 5000), (683, 5000)] {
        let mut driven = driven();
        (0..many).for_each(|key| driven.add_at(key, time, 0));
        while driven.machine.len() < many as usize {
            driven.machine.advance(at(time));
        }
        assert_eq!((driven.machine.waiting(), driven.machine.next_time()), (0, None), "{many} at {time}");
    }
}

#[test]
fn dq_004_the_next_time_is_that_of_the_first_key_and_never_later() {
    let mut driven = driven();
    let times = [7, 64, 65, 4095, 4096, 4097, 262_143, 262_144, 1_000_000, 3_600_000_000, Time::LAST.ticks()];
    times.iter().rev().enumerate().for_each(|(key, time)| driven.add_at(key as u32, *time, 0));
    for (n, time) in times.into_iter().enumerate() {
        assert!(driven.machine.next_time().is_some_and(|next| next <= at(time)));
        assert!(driven.take(time - 1).is_none(), "not before {time}");
        assert_eq!(driven.take_all(time), [(times.len() - 1 - n) as u32]);
    }
    assert_eq!(driven.machine.next_time(), None);
}

#[test]
fn dq_009_a_key_can_be_moved_forward_while_its_ring_is_being_spread() {
    let mut driven = driven();
    let (ring, time) = (4096 * 3, 4096 * 3 + 4000);
    driven.add_at(9999, ring + 5, 0);
    (0..9000).for_each(|key| driven.add_at(key, time, 0));
    assert!(driven.machine.advance(at(ring + 10)), "there was too much to do at once");
    driven.add_at(8500, ring + 20, ring + 10);
    driven.add_at(5, ring + 20, ring + 10);
    assert_eq!(driven.take_all(ring + 10), [9999]);
    assert_eq!(driven.take_all(ring + 20), [8500, 5]);
    assert_eq!(driven.take_all(time).len(), 8998);
    assert_eq!(driven.machine.waiting(), 0);
}

#[test]
fn dq_011_keys_of_one_time_stay_in_order_while_their_ring_is_being_spread() {
    let mut driven = driven();
    let (ring, time) = (4096 * 3, 4096 * 3 + 4000);
    driven.add_at(9999, ring + 5, 0);
    (0..9000).for_each(|key| driven.add_at(key, time, 0));
    assert!(driven.machine.advance(at(ring + 10)), "there was too much to do at once");
    (9000..9003).for_each(|key| driven.add_at(key, time, ring + 10));
    assert_eq!(driven.take_all(ring + 10), [9999]);
    assert_eq!(driven.take_all(time), Vec::from_iter(0..9003));
}

#[test]
fn dq_010_keys_of_any_delay_are_due_in_order() {
    let mut driven = driven();
    let mut random = fastrand::Rng::with_seed(10);
    let mut expected: Vec<_> = (0..20_000_u32).map(|key| (1 + (random.u64(..) >> random.u32(20..64)), key)).collect();
    expected.iter().for_each(|(time, key)| driven.add_at(*key, *time, 0));
    expected.sort_unstable();
    let mut now = 0;
    let mut taken = Vec::new();
    while driven.machine.waiting() > 0 {
        now = driven.machine.next_time().unwrap().ticks().max(now + 1 + random.u64(..1 << 20));
        while let Some(run) = driven.take(now) {
            driven.machine.finish(run.slot, run.run, at(now));
            taken.push(run.key);
        }
        assert!(driven.machine.next_time().is_none_or(|next| next > at(now)));
    }
    assert_eq!(taken, Vec::from_iter(expected.into_iter().map(|(_, key)| key)));
}

#[test]
fn wq_026_a_burst_leaves_no_memory() {
    let mut driven = driven();
    for _ in 0..3 {
        (0..100_000).for_each(|key| _ = driven.machine.add(driven.hasher.hash_one(key), key, key as i32 % 5, at(0)));
        assert_eq!(driven.take_all(0).len(), 100_000);
        assert_eq!((driven.machine.keys.len(), driven.machine.depth(), driven.machine.processing()), (0, 0, 0));
    }
    assert!(driven.machine.runs.len() <= 1);
}

#[test]
fn dq_015_flushed_keys_are_due_at_once() {
    let mut driven = driven();
    driven.add_at(1, 1_000_000, 0);
    driven.machine.drain(true);
    assert_eq!(driven.machine.next_time(), Some(Time::ZERO));
    assert!(!driven.machine.is_over());
    let taken = driven.take(5).unwrap();
    assert_eq!(driven.machine.next_time(), None);
    assert!(driven.machine.is_over() && !driven.machine.is_drained());
    driven.machine.finish(taken.slot, taken.run, at(5));
    assert!(driven.machine.is_drained());
}

#[test]
fn pq_003_every_key_is_in_the_band_of_its_priority_whatever_is_added() {
    for pending in [OnReadd::Keep, OnReadd::Merge] {
        let mut driven = driven_with(pending, OrderRules { share: None, ageing: None, fair: true });
        let mut random = fastrand::Rng::with_seed(3);
        let mut held = Vec::new();
        for now in 1..50_000 {
            let (key, priority) = (random.u32(..30), random.i32(-3..4));
            let hash = driven.hasher.hash_one(key);
            match random.u32(..6) {
                0 => _ = driven.machine.add(hash, key, priority, at(now)),
                1 | 2 => {
                    _ = driven.machine.add_at(hash, key, priority, at(now + random.u64(..200)), random.bool(), at(now))
                }
                3 => held.extend(driven.take(now)),
                _ if held.len() > 3 => {
                    let taken = held.swap_remove(random.usize(..held.len()));
                    driven.machine.finish(taken.slot, taken.run, at(now));
                }
                _ => {}
            }
            let by_band: usize = driven.machine.depths().map(|(_, depth)| depth).sum();
            assert_eq!(by_band, driven.machine.depth());
        }
        held.into_iter().for_each(|taken| _ = driven.machine.finish(taken.slot, taken.run, at(50_000)));
        driven.machine.drain(true);
        driven.take_all(50_000);
        assert!(driven.machine.is_drained());
        assert_eq!((driven.machine.len(), driven.machine.waiting(), driven.machine.keys.len()), (0, 0, 0));
    }
}
