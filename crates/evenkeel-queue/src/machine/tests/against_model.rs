//! The machine against a naive model: random operations have the same results.

use std::collections::BTreeMap;
use std::env;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::panic::{self, AssertUnwindSafe};

use rapidhash::quality::RandomState;

use super::model::{Choices, End, Group, Model};
use crate::machine::keys::Slot;
use crate::machine::ready_queue::OrderRules;
use crate::machine::time::Time;
use crate::machine::{GroupId, MachineSettings, OnReadd, QueueMachine, Run, SuspendedAdds, TakeResult};

/// The default number of steps; `EVENKEEL_MODEL_STEPS` overrides it.
const STEPS: u64 = 1_000_000;
const STEPS_OF_A_SEED: u64 = 2_000;

/// With no more keys than this waiting, all that are due become ready at once and the next time is exact.
const FEW: usize = 64;

#[test]
fn the_machine_matches_the_model() {
    let steps = env::var("EVENKEEL_MODEL_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(STEPS);
    for seed in 0..steps.div_ceil(STEPS_OF_A_SEED) {
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut run = Both::new(seed);
            run.gather_crowd();
            for step in 0..STEPS_OF_A_SEED {
                run.step(step);
            }
        }));
        if let Err(error) = result {
            let run = Both::new(seed);
            eprintln!("seed {seed}: {:?}, {} keys, frugal: {}", run.model.choices, run.keys, run.is_frugal);
            panic::resume_unwind(error);
        }
    }
}

/// The item of a worker.
struct Held {
    key: u32,
    slot: Slot,
    run: Run,
}

/// The machine and the model, side by side.
struct Both {
    rng: fastrand::Rng,
    machine: QueueMachine<u32>,
    model: Model,
    hasher: RandomState,
    workers: Vec<Option<Held>>,
    /// The suspensions, in the order of the model's.
    suspended: Vec<GroupId>,
    /// Awaited runs: the group, and the runs that have not ended.
    awaited: Vec<(GroupId, Vec<u32>)>,
    now: u64,
    keys: u32,
    priorities: i32,
    /// As in the driver, the machine gets the time only if it needs it or the call is timed.
    is_frugal: bool,
    /// Whether the next time may be before the first deadline: keys were taken out, or there were many.
    is_inexact: bool,
}

impl Both {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let some = |rng: &mut fastrand::Rng, choices: &[u64]| choices[rng.usize(..choices.len())];
        let choices = Choices {
            merge: if rng.bool() { OnReadd::Keep } else { OnReadd::Merge },
            share: [None, Some(1), Some(2), Some(3), Some(8)][rng.usize(..5)],
            ageing: (rng.u8(..4) == 0).then(|| some(&mut rng, &[1, 10, 1_000])),
            tenants: (rng.u8(..3) == 0).then(|| rng.u32(1..5)),
            memory: some(&mut rng, &[1, 100, 100_000, 1 << 40]),
        };
        let keys = some(&mut rng, &[3, 3, 8, 8, 40, 40, 40, 3_000]) as u32;
        let rules = OrderRules {
            share: choices.share.and_then(NonZeroU32::new),
            ageing: choices.ageing.map(Time::span),
            fair: choices.tenants.is_some(),
        };
        let hasher = RandomState::default();
        let tenants = choices.tenants.unwrap_or(1);
        let settings = MachineSettings {
            rules,
            ready_order: None,
            tenant: choices.tenants.is_some().then(|| Box::new(move |key: &u32| u64::from(key % tenants)) as _),
            on_readd: choices.merge,
            memory: Time::span(choices.memory),
        };
        Both {
            machine: QueueMachine::new(settings, hasher),
            model: Model::new(choices),
            hasher,
            workers: (0..rng.usize(1..6)).map(|_| None).collect(),
            suspended: Vec::new(),
            awaited: Vec::new(),
            now: some(&mut rng, &[0, 0, 1_000_000, Time::LAST.ticks() / 2]),
            keys,
            priorities: some(&mut rng, &[0, 1, 2, 20]) as i32,
            is_frugal: rng.u8(..4) == 0,
            is_inexact: false,
            rng,
        }
    }

    /// Many keys are delayed until about the same time, which is more work than one call does.
    fn gather_crowd(&mut self) {
        if self.keys > 1_000 {
            let about = self.now + self.rng.u64(10_000..10_000_000);
            for _ in 0..self.keys {
                let (key, time) = (self.key(), about + self.rng.u64(..2_000) / 4);
                self.add_key_at(key, 0, Time::from_ticks(time), false);
            }
        }
    }

    fn step(&mut self, step: u64) {
        self.pass_time(step);
        match self.rng.u8(..100) {
            0..15 => self.add(),
            15..30 if self.keys > 1_000 => self.add_at(),
            15..30 => self.add(),
            30..45 => self.add_at(),
            45..50 => self.fail(),
            50..54 => self.forget(),
            54..75 => self.take(),
            75..96 => self.finish(),
            96 => _ = self.advance(),
            97 => match self.rng.u8(..6) {
                0 => self.suspend(),
                1..4 => self.resume(),
                4 => self.remove_if(),
                _ => self.await_runs(),
            },
            _ if step > STEPS_OF_A_SEED * 8 / 10 && self.rng.u8(..4) == 0 => self.end(),
            _ => {}
        }
        self.compare();
    }

    fn pass_time(&mut self, step: u64) {
        let rng = &mut self.rng;
        let hour = 180_000_000;
        let passed = match rng.u32(..10_000) {
            0..4_000 => 0,
            4_000..8_500 => rng.u64(1..4),
            8_500..9_800 => rng.u64(1..300),
            9_800..9_960 => rng.u64(1..1_000_000),
            9_960..9_990 => rng.u64(1..24 * hour),
            9_990..9_999 => rng.u64(1..40 * 24 * hour),
            _ => rng.u64(1..2 * 365 * 24 * hour),
        };
        // Adds for which the machine gets no time have equal times, and no order.
        let passed = if self.is_frugal { passed.max(1) } else { passed };
        let is_late = step > STEPS_OF_A_SEED * 9 / 10;
        let last = Time::LAST.ticks();
        self.now = if is_late && rng.u16(..1_000) == 0 { last } else { (self.now + passed).min(last) };
    }

    fn key(&mut self) -> u32 {
        self.rng.u32(..self.keys)
    }

    fn priority(&mut self) -> i32 {
        match self.rng.u8(..3) {
            0 => self.rng.i32(-self.priorities..=self.priorities),
            _ => 0,
        }
    }

    fn hash(&self, key: u32) -> u64 {
        self.hasher.hash_one(key)
    }

    fn timed(&self) -> Time {
        Time::from_ticks(self.now)
    }

    /// The time, if the machine needs it.
    fn untimed(&self) -> Time {
        if self.is_frugal && !self.machine.needs_time() { Time::ZERO } else { self.timed() }
    }

    fn add(&mut self) {
        let (key, priority) = (self.key(), self.priority());
        let now = if priority == 0 { self.untimed() } else { self.timed() };
        self.advance_all();
        self.is_inexact |= self.model.is_waiting(key);
        self.machine.add(self.hash(key), key, priority, now);
        self.model.add(key, priority, self.now);
    }

    fn add_at(&mut self) {
        let (key, priority, time) = (self.key(), self.priority(), self.later());
        self.add_key_at(key, priority, time, false);
    }

    /// A time to wait until.
    fn later(&mut self) -> Time {
        let rng = &mut self.rng;
        let wait = match rng.u8(..100) {
            0..5 => 0,
            5..50 => rng.u64(1..8),
            50..80 => rng.u64(1..500),
            80..95 => rng.u64(1..1_000_000) / 1_000 * 1_000,
            95..98 => rng.u64(1..1 << 42),
            _ => 1 << 46,
        };
        // Coarse times cause many keys with equal times.
        let time = if rng.u8(..3) == 0 { (self.now + wait) / 64 * 64 } else { self.now + wait };
        Time::from_ticks(time.max(self.now))
    }

    fn add_key_at(&mut self, key: u32, priority: i32, time: Time, backoff: bool) {
        self.advance_all();
        self.is_inexact |= time <= self.timed() && self.model.is_waiting(key);
        self.machine.add_at(self.hash(key), key, priority, time, backoff, self.timed());
        self.model.add_at(key, priority, time.ticks(), backoff, self.now);
    }

    fn fail(&mut self) {
        // Mostly by the worker of the key.
        let held = self.rng.choice(&self.workers).and_then(|worker| worker.as_ref()).map(|held| held.key);
        let key = held.filter(|_| self.rng.u8(..4) > 0).unwrap_or(self.rng.u32(..self.keys));
        let times = if self.rng.u16(..2_000) == 0 { 5_000 } else { 1 };
        for _ in 0..times {
            let failed = self.machine.fail(self.hash(key), &key, self.timed());
            assert_eq!(
                (failed.failures, failed.until.map(Time::ticks)),
                self.model.fail(key, self.now),
                "failures of {key}"
            );
        }
        if self.rng.u8(..5) > 0 {
            let (priority, time) = (self.priority(), self.later());
            self.add_key_at(key, priority, time, true);
        }
    }

    fn forget(&mut self) {
        let key = self.key();
        self.machine.forget(self.hash(key), &key);
        self.model.forget(key);
    }

    fn group(&mut self) -> Group {
        let divisor = self.rng.u32(1..5);
        Group { divisor, remainder: self.rng.u32(..divisor) }
    }

    fn suspend(&mut self) {
        let (group, refuses) = (self.group(), self.rng.bool());
        let adds = if refuses { SuspendedAdds::Refuse } else { SuspendedAdds::Hold };
        self.suspended.push(self.machine.suspend(adds, Box::new(move |key| group.has(*key))));
        self.model.suspensions.push((group, refuses));
    }

    fn resume(&mut self) {
        if self.suspended.is_empty() {
            return;
        }
        let index = self.rng.usize(..self.suspended.len());
        let (_, held) = self.machine.resume(self.suspended.swap_remove(index));
        assert_eq!(held.len(), self.model.held(), "keys that are set aside");
        self.machine.resume_held(&held);
        self.model.resume(index);
    }

    fn remove_if(&mut self) {
        let group = self.group();
        let pages = (0..).map_while(|page| self.machine.remove_page(page, &|key| group.has(*key)));
        let removed: usize = pages.map(|keys| keys.len()).sum();
        assert_eq!(removed, self.model.remove_if(group, self.keys), "removed keys");
        // The wheel may look again for keys that are not there.
        self.is_inexact = true;
    }

    fn await_runs(&mut self) {
        let group = self.group();
        let (id, count) = self.machine.await_runs(&|key| group.has(*key));
        assert_eq!(count, self.model.runs_of(group), "runs in flight");
        let keys: Vec<u32> = self.workers.iter().flatten().map(|held| held.key).filter(|key| group.has(*key)).collect();
        self.awaited.push((id, keys));
        if self.awaited.len() > 4 {
            let (id, _) = self.awaited.swap_remove(0);
            self.machine.forget_runs(id);
        }
    }

    fn take(&mut self) {
        let Some(at) = self.workers.iter().position(Option::is_none) else { return };
        for _ in 0..100 {
            let looks = self.machine.next_time().is_some_and(|time| time <= self.timed());
            let now = self.untimed();
            let next = self.machine.take(now);
            self.catch_up(
                !matches!(next, TakeResult::Busy),
                matches!(next, TakeResult::Empty | TakeResult::Over),
                looks,
            );
            let is_over = matches!(next, TakeResult::Over);
            match next {
                TakeResult::Busy => continue,
                TakeResult::Empty | TakeResult::Over => {
                    assert_eq!(self.model.take(self.now), None, "a key is ready");
                    assert_eq!(is_over, self.model.is_over());
                }
                TakeResult::Taken(taken) => {
                    let given = self.model.take(self.now).expect("no key is ready");
                    assert_eq!(
                        (taken.key, taken.priority, taken.failures),
                        (given.key, given.priority, given.failures),
                        "key, priority, failures"
                    );
                    if !self.is_frugal {
                        assert_eq!(taken.waited, Time::span(given.waited), "waited");
                    }
                    self.workers[at] = Some(Held { key: taken.key, slot: taken.slot, run: taken.run });
                }
            }
            return;
        }
        panic!("the machine is busy for ever");
    }

    /// Each call first moves due keys; the model needs their number.
    fn advance_all(&mut self) {
        while self.advance() {}
    }

    fn advance(&mut self) -> bool {
        let looks = self.machine.next_time().is_some_and(|time| time <= self.timed());
        let now = self.untimed();
        let is_busy = self.machine.advance(now);
        self.catch_up(!is_busy, !is_busy, looks);
        is_busy
    }

    /// Makes as many keys due in the model as in the machine: all due ones, or some of very many.
    fn catch_up(&mut self, is_done: bool, is_all: bool, looks: bool) {
        let until = if self.model.end == End::Flush { Time::LAST.ticks() } else { self.now };
        let before = self.model.waiting();
        let moved = before - self.machine.waiting();
        self.model.make_due(moved, until, self.now);
        if is_all || is_done && before <= FEW {
            let is_later = |time| time > until || self.model.waiting() == 0;
            assert!(self.model.first_time().is_none_or(is_later), "a key is due and not ready");
            if looks && self.model.waiting() <= FEW {
                self.is_inexact = false;
            }
        }
    }

    fn finish(&mut self) {
        let at = self.rng.usize(..self.workers.len());
        let Some(held) = self.workers[at].take() else { return };
        match self.rng.u8(..10) {
            0..5 => {
                self.machine.forget_slot(held.slot);
                self.model.forget(held.key);
            }
            5..7 => {
                let failed = self.machine.fail(self.hash(held.key), &held.key, self.timed());
                let failed = (failed.failures, failed.until.map(Time::ticks));
                assert_eq!(failed, self.model.fail(held.key, self.now), "failures of {}", held.key);
                let (priority, time) = (self.priority(), self.later());
                self.add_key_at(held.key, priority, time, true);
            }
            _ => {}
        }
        self.advance_all();
        let now = self.untimed();
        let (took, _) = self.machine.finish(held.slot, held.run, now);
        let expected = self.model.finish(held.key, self.now);
        for (group, keys) in &mut self.awaited {
            keys.retain(|key| *key != held.key);
            assert_eq!(self.machine.awaited_runs(*group), keys.len(), "awaited runs");
        }
        if !self.is_frugal {
            assert_eq!(took, Time::span(expected), "how long it took");
        }
    }

    fn end(&mut self) {
        let is_running = self.model.end == End::None;
        match self.rng.u8(..4) {
            0 => {
                self.machine.shut_down();
                self.model.end = End::ShutDown;
            }
            1 => {
                self.machine.drain(false);
                let goes_on = is_running || self.model.end == End::Flush;
                self.model.end = if goes_on { End::Discard } else { self.model.end };
            }
            _ => {
                self.machine.drain(true);
                self.model.end = if is_running { End::Flush } else { self.model.end };
            }
        }
    }

    fn compare(&mut self) {
        let (machine, model) = (&self.machine, &self.model);
        assert_eq!(machine.len(), model.len(), "len");
        assert_eq!(machine.depth(), model.depth(), "depth");
        assert_eq!(machine.waiting(), model.waiting(), "waiting");
        assert_eq!(machine.processing(), model.processing(), "processing");
        assert_eq!(machine.held(), model.held(), "held");
        assert_eq!(machine.failing(), model.failing(), "failing");
        assert_eq!(machine.adds(), model.adds, "adds");
        assert_eq!(machine.retries(), model.retries, "retries");
        assert_eq!(machine.is_running(), model.end == End::None);
        assert_eq!(machine.is_shut_down(), model.end == End::ShutDown);
        assert_eq!(machine.is_over(), model.is_over(), "is over");
        assert_eq!(machine.is_drained(), model.is_drained(), "is drained");
        if model.end == End::None {
            let (next, first) = (machine.next_time().map(Time::ticks), model.first_time());
            self.is_inexact = first.is_some() && (self.is_inexact || model.waiting() > FEW);
            if self.is_inexact {
                assert!(next.is_some_and(|next| Some(next) <= first), "{next:?} is after the first time, {first:?}");
            } else {
                assert_eq!(next, first, "next time");
            }
        } else {
            let at_once = (model.end == End::Flush && model.waiting() > 0).then_some(Time::ZERO);
            assert_eq!(machine.next_time(), at_once, "next time");
        }
        if self.keys <= 64 {
            self.compare_more();
        }
    }

    fn compare_more(&mut self) {
        let key = self.key();
        let (machine, model) = (&self.machine, &self.model);
        assert_eq!(
            machine.failures(self.hash(key), &key, self.timed()),
            model.failures_at(key, self.now),
            "failures of {key}"
        );
        let mut depths = BTreeMap::new();
        for (priority, depth) in machine.depths() {
            *depths.entry(priority).or_default() += depth;
        }
        assert_eq!(depths, model.depths(), "depth by priority");
        if !self.is_frugal {
            let mut begins: Vec<_> = machine.runs().map(Time::ticks).collect();
            begins.sort_unstable();
            assert_eq!(begins, model.begins(), "when runs began");
            assert_eq!(machine.oldest().map(Time::ticks), model.oldest(), "since when the oldest is ready");
        }
    }
}
