//! A naive work queue: sets and lists, searched from the front. Slow, and simple enough to trust.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::OnReadd;

/// The options, as in the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices {
    pub(super) merge: OnReadd,
    pub(super) share: Option<u32>,
    pub(super) ageing: Option<u64>,
    pub(super) tenants: Option<u32>,
    pub(super) memory: u64,
}

/// A key that is ready.
#[derive(Clone, Copy, Debug)]
struct Queued {
    key: u32,
    since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    time: u64,
    number: u64,
    priority: i32,
}

/// When the backoff of a key is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backoff {
    Until(u64),
    /// Another cause makes the key ready sooner, so this backoff never completes.
    Cut,
}

/// A run that has not ended.
#[derive(Clone, Copy, Debug)]
struct Run {
    begun: u64,
    /// The run started before the backoff ended, and the backoff has not ended yet.
    is_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    None,
    Discard,
    Flush,
    ShutDown,
}

/// The keys with this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) divisor: u32,
    pub(super) remainder: u32,
}

impl Group {
    pub(super) fn has(self, key: u32) -> bool {
        key % self.divisor == self.remainder
    }
}

/// The expected hand-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) key: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
    pub(super) waited: u64,
}

pub(super) struct Model {
    pub(super) choices: Choices,
    pub(super) end: End,
    /// By priority, first in, first out.
    ready: BTreeMap<i32, Vec<Queued>>,
    /// The priority of each key that is ready.
    priorities: BTreeMap<u32, i32>,
    /// By priority, the tenants with keys, the next one first.
    turns: BTreeMap<i32, Vec<u32>>,
    /// Consecutive hand-outs that passed over a lower priority.
    passed: u32,
    /// Keys that were added while they are being processed: since when, with which priority.
    again: BTreeMap<u32, (u64, i32)>,
    /// Keys without an add: their backoff ended.
    retries_due: BTreeSet<u32>,
    runs: BTreeMap<u32, Run>,
    waiting: BTreeMap<u32, Wait>,
    /// Delayed keys by time, then in insertion order.
    times: BTreeSet<(u64, u64, u32)>,
    numbers: u64,
    /// Dirty keys whose time is still known.
    dated: BTreeSet<u32>,
    failures: BTreeMap<u32, u32>,
    backoffs: BTreeMap<u32, Backoff>,
    /// Idle keys and when their failures expire, in that order.
    idle: Vec<(u32, u64)>,
    /// Suspensions: a group of keys, and whether adds are refused.
    pub(super) suspensions: Vec<(Group, bool)>,
    /// Suspended keys that were ready, in the order in which they were set aside: key, priority, since when.
    held: Vec<(u32, i32, u64)>,
    pub(super) adds: u64,
    pub(super) retries: u64,
}

impl Model {
    pub(super) fn new(choices: Choices) -> Self {
        Model {
            choices,
            end: End::None,
            ready: BTreeMap::new(),
            priorities: BTreeMap::new(),
            turns: BTreeMap::new(),
            passed: 0,
            again: BTreeMap::new(),
            retries_due: BTreeSet::new(),
            runs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            times: BTreeSet::new(),
            numbers: 0,
            dated: BTreeSet::new(),
            failures: BTreeMap::new(),
            backoffs: BTreeMap::new(),
            idle: Vec::new(),
            suspensions: Vec::new(),
            held: Vec::new(),
            adds: 0,
            retries: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.priorities.len()
    }

    pub(super) fn depth(&self) -> usize {
        self.len() + self.again.len()
    }

    /// Returns the number of keys of each priority that has any.
    pub(super) fn depths(&self) -> BTreeMap<i32, usize> {
        let mut depths = BTreeMap::new();
        for priority in self.priorities.values().chain(self.again.values().map(|(_, priority)| priority)) {
            *depths.entry(*priority).or_default() += 1;
        }
        depths
    }

    pub(super) fn waiting(&self) -> usize {
        match self.end {
            End::None | End::Flush => self.waiting.len(),
            End::Discard | End::ShutDown => 0,
        }
    }

    pub(super) fn is_waiting(&self, key: u32) -> bool {
        self.waiting.contains_key(&key)
    }

    pub(super) fn first_time(&self) -> Option<u64> {
        self.times.first().map(|(time, ..)| *time)
    }

    pub(super) fn processing(&self) -> usize {
        self.runs.len()
    }

    /// Returns the start times of the runs in flight, in order.
    pub(super) fn begins(&self) -> Vec<u64> {
        let mut begins: Vec<_> = self.runs.values().map(|run| run.begun).collect();
        begins.sort_unstable();
        begins
    }

    pub(super) fn failing(&self) -> usize {
        self.failures.len()
    }

    pub(super) fn failures(&self, key: u32) -> u32 {
        self.failures.get(&key).copied().unwrap_or(0)
    }

    /// Returns the failures of a key that have not expired.
    pub(super) fn failures_at(&self, key: u32, now: u64) -> u32 {
        let is_forgotten = self.idle.iter().any(|(idle, expiry)| *idle == key && *expiry <= now);
        if is_forgotten { 0 } else { self.failures(key) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end != End::None && self.depth() == 0 && self.waiting() == 0
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_over() && self.runs.is_empty()
    }

    fn is_dirty(&self, key: u32) -> bool {
        let is_held = self.held.iter().any(|(held, ..)| *held == key);
        self.priorities.contains_key(&key) || self.again.contains_key(&key) || is_held
    }

    fn held_priority(&mut self, key: u32) -> Option<&mut i32> {
        self.held.iter_mut().find(|(held, ..)| *held == key).map(|(_, priority, _)| priority)
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn is_suspended(&self, key: u32) -> bool {
        self.suspensions.iter().any(|(group, _)| group.has(key))
    }

    pub(super) fn accepts(&self, key: u32) -> bool {
        self.end == End::None && !self.suspensions.iter().any(|(group, refuses)| *refuses && group.has(key))
    }

    pub(super) fn resume(&mut self, index: usize) {
        self.suspensions.swap_remove(index);
        for (key, priority, since) in std::mem::take(&mut self.held) {
            if self.is_suspended(key) {
                self.held.push((key, priority, since));
            } else if self.end == End::None {
                self.push(key, priority, since);
            } else if !self.is_waiting(key) {
                self.failures.remove(&key);
                self.backoffs.remove(&key);
            }
        }
    }

    /// Removes the keys of a group. Returns how many there were.
    pub(super) fn remove_if(&mut self, group: Group, keys: u32) -> usize {
        let mut count = 0;
        for key in (0..keys).filter(|key| group.has(*key)) {
            let is_dirty = self.is_dirty(key);
            let is_idle = self.idle.iter().any(|(idle, _)| *idle == key);
            count += usize::from(is_dirty || is_idle || self.is_waiting(key) || self.runs.contains_key(&key));
            if self.is_waiting(key) {
                self.stop_waiting(key);
            }
            if self.priorities.contains_key(&key) {
                self.pull(key);
            }
            self.held.retain(|(held, ..)| *held != key);
            self.again.remove(&key);
            self.retries_due.remove(&key);
            self.dated.remove(&key);
            self.forget(key);
        }
        count
    }

    pub(super) fn runs_of(&self, group: Group) -> usize {
        self.runs.keys().filter(|key| group.has(**key)).count()
    }

    pub(super) fn add(&mut self, key: u32, priority: i32, now: u64) {
        if !self.accepts(key) {
            return;
        }
        if self.is_dirty(key) {
            return self.add_again(key, priority, now);
        }
        let mut priority = priority;
        match self.waiting.get(&key) {
            Some(wait) if self.choices.merge == OnReadd::Merge => {
                priority = priority.max(wait.priority);
                self.stop_waiting(key);
            }
            Some(_) => {}
            None => self.recall(key, now),
        }
        self.make_dirty(key, priority, now);
    }

    pub(super) fn add_at(&mut self, key: u32, priority: i32, time: u64, backoff: bool, now: u64) {
        if !self.accepts(key) {
            return;
        }
        self.retries += 1;
        if time <= now {
            return self.add(key, priority, now);
        }
        if backoff && self.retries_due.remove(&key) {
            // The retry of an earlier failure becomes that of this one, with its wait.
            self.again.remove(&key);
        }
        let known = self.backoffs.get(&key).copied();
        if let Some(wait) = self.waiting.get(&key).copied() {
            // A key has one wait, until the earlier of the two times, with the higher of the two priorities.
            let state = match (known, backoff) {
                (_, true) if time <= wait.time => Some(Backoff::Until(time)),
                (None, true) => Some(Backoff::Cut),
                (Some(_), false) if time < wait.time => Some(Backoff::Cut),
                (known, _) => known,
            };
            self.set_backoff(key, state);
            if time < wait.time {
                self.stop_waiting(key);
                self.wait(key, time, wait.priority);
            }
            return self.share_priority(key, priority, now);
        }
        if self.is_dirty(key) && self.choices.merge == OnReadd::Merge {
            // The key is not delayed, so its next run does not wait for the backoff.
            let state = match known {
                Some(Backoff::Until(earlier)) => Backoff::Until(earlier.min(time)),
                known => known.unwrap_or(Backoff::Until(time)),
            };
            if backoff {
                self.set_backoff(key, Some(state));
            }
            return self.add_again(key, priority, now);
        }
        self.recall(key, now);
        // A key that is ready too early stays ready.
        if backoff || !self.is_dirty(key) {
            self.set_backoff(key, backoff.then_some(Backoff::Until(time)));
        }
        self.wait(key, time, priority);
        self.share_priority(key, priority, now);
    }

    /// Sets the priority of a delayed key. If it is ready too, it has one priority, the highest.
    fn share_priority(&mut self, key: u32, priority: i32, now: u64) {
        let is_held = self.held_priority(key).is_some();
        if self.priorities.contains_key(&key) || is_held {
            self.add_again(key, priority, now);
        }
        let ready = self.priorities.get(&key).copied().or(self.held_priority(key).copied());
        if let Some(wait) = self.waiting.get_mut(&key) {
            wait.priority = ready.unwrap_or(wait.priority.max(priority));
        }
    }

    fn set_backoff(&mut self, key: u32, state: Option<Backoff>) {
        if state.is_some() {
            self.dated.remove(&key);
        }
        match state {
            Some(state) => self.backoffs.insert(key, state),
            None => self.backoffs.remove(&key),
        };
    }

    fn wait(&mut self, key: u32, time: u64, priority: i32) {
        self.numbers += 1;
        self.dated.remove(&key);
        self.waiting.insert(key, Wait { time, number: self.numbers, priority });
        self.times.insert((time, self.numbers, key));
    }

    fn stop_waiting(&mut self, key: u32) {
        let wait = self.waiting.remove(&key).expect("it waits");
        self.times.remove(&(wait.time, wait.number, key));
    }

    /// Makes the first `count` delayed keys due; all of them are due by `until`.
    pub(super) fn make_due(&mut self, count: usize, until: u64, now: u64) {
        for _ in 0..count {
            let (time, _, key) = *self.times.first().expect("no more have become due than waited");
            assert!(time <= until, "key {key} became ready at {until}, which is before its time, {time}");
            let priority = self.waiting[&key].priority;
            self.stop_waiting(key);
            let is_retry = matches!(self.backoffs.get(&key), Some(Backoff::Until(_)));
            if is_retry {
                self.backoffs.remove(&key);
                if let Some(run) = self.runs.get_mut(&key) {
                    run.is_early = false;
                    if !self.is_dirty(key) {
                        self.retries_due.insert(key);
                    }
                }
            }
            if self.is_dirty(key) {
                self.add_again(key, priority, now);
            } else {
                self.make_dirty(key, priority, time.min(now));
            }
        }
    }

    fn make_dirty(&mut self, key: u32, priority: i32, since: u64) {
        self.adds += 1;
        if !self.is_waiting(key) && !self.backoffs.contains_key(&key) {
            self.dated.insert(key);
        }
        if self.runs.contains_key(&key) {
            self.again.insert(key, (since, priority));
        } else {
            self.push(key, priority, since);
        }
    }

    /// A dirty key was added: the higher priority wins, and a raised key is queued last in it.
    fn add_again(&mut self, key: u32, priority: i32, now: u64) {
        if let Some((_, had)) = self.again.get_mut(&key) {
            self.retries_due.remove(&key);
            *had = priority.max(*had);
        } else if let Some(had) = self.held_priority(key) {
            *had = priority.max(*had);
        } else if self.priorities[&key] < priority {
            let (_, since) = self.pull(key);
            self.push(key, priority, if self.dated.contains(&key) { since } else { now });
        }
    }

    fn tenant(&self, key: u32) -> u32 {
        self.choices.tenants.map_or(0, |tenants| key % tenants)
    }

    fn push(&mut self, key: u32, priority: i32, since: u64) {
        let wait = self.waiting.get_mut(&key);
        let priority = wait.as_ref().map_or(priority, |wait| wait.priority.max(priority));
        if let Some(wait) = wait {
            wait.priority = priority;
        }
        let tenant = self.tenant(key);
        let turns = self.turns.entry(priority).or_default();
        if !turns.contains(&tenant) {
            turns.push(tenant);
        }
        self.ready.entry(priority).or_default().push(Queued { key, since });
        self.priorities.insert(key, priority);
    }

    /// Takes a key out of the order.
    fn pull(&mut self, key: u32) -> (i32, u64) {
        let priority = self.priorities.remove(&key).expect("it is ready");
        let line = self.ready.get_mut(&priority).expect("there is a line");
        let at = line.iter().position(|queued| queued.key == key).expect("it is in line");
        let since = line.remove(at).since;
        if line.is_empty() {
            self.ready.remove(&priority);
        }
        let tenant = self.tenant(key);
        let has_more =
            (self.ready.get(&priority)).is_some_and(|line| line.iter().any(|q| self.tenant(q.key) == tenant));
        if !has_more {
            self.turns.get_mut(&priority).expect("there are turns").retain(|other| *other != tenant);
        }
        (priority, since)
    }

    /// Returns the first key of each priority that has any, the highest priority first.
    fn fronts(&self) -> Vec<(i32, Queued)> {
        let front = |(priority, line): (&i32, &Vec<Queued>)| {
            let turn = self.turns[priority][0];
            let first = line.iter().find(|queued| self.tenant(queued.key) == turn).expect("whose turn it is has keys");
            (*priority, *first)
        };
        self.ready.iter().rev().map(front).collect()
    }

    /// Since when the oldest of the first ones has been ready.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.fronts().iter().map(|(_, front)| front.since).min()
    }

    pub(super) fn take(&mut self, now: u64) -> Option<Given> {
        loop {
            let (key, priority, since) = self.take_front(now)?;
            if !self.is_suspended(key) {
                return Some(self.begin(key, priority, since, now));
            }
            self.held.push((key, priority, since));
        }
    }

    /// Takes the next key out of the order.
    fn take_front(&mut self, now: u64) -> Option<(u32, i32, u64)> {
        let fronts = self.fronts();
        let worth = |(priority, front): &(i32, Queued)| {
            let gained = self.choices.ageing.map_or(0, |step| now.saturating_sub(front.since) / step);
            i128::from(*priority) + i128::from(gained)
        };
        let highest = fronts.iter().map(worth).max()?;
        let mut chosen = *fronts.iter().find(|front| worth(front) == highest)?;
        // With a share of one, no key is passed over, and each hand-out takes the oldest.
        let is_other = |priority: i32| priority != chosen.0 || self.choices.share == Some(1);
        let mut others: Vec<_> = fronts.iter().filter(|(priority, _)| is_other(*priority)).collect();
        others.sort_by_key(|(_, front)| front.since);
        match (others.first(), self.choices.share) {
            (Some(passed_over), Some(share)) => {
                self.passed += 1;
                if self.passed >= share {
                    self.passed = 0;
                    chosen = **passed_over;
                }
            }
            _ => self.passed = 0,
        }
        let key = chosen.1.key;
        let (priority, since) = self.pull(key);
        // The tenant has had its turn.
        let tenant = self.tenant(key);
        let turns = self.turns.get_mut(&priority).expect("there are turns");
        if let Some(at) = turns.iter().position(|other| *other == tenant) {
            let tenant = turns.remove(at);
            turns.push(tenant);
        }
        Some((key, priority, since))
    }

    fn begin(&mut self, key: u32, priority: i32, since: u64, now: u64) -> Given {
        self.dated.remove(&key);
        let is_early = match self.backoffs.get(&key) {
            None => false,
            Some(Backoff::Cut) => true,
            Some(Backoff::Until(time)) => now < *time,
        };
        // A backoff continues if its end is known.
        let goes_on = matches!(self.backoffs.get(&key), Some(Backoff::Until(time)) if now < *time);
        if !self.is_waiting(key) && !goes_on {
            self.backoffs.remove(&key);
        }
        self.runs.insert(key, Run { begun: now, is_early });
        Given { key, priority, failures: self.failures(key), waited: now.saturating_sub(since) }
    }

    /// A failure counts unless the backoff of the last one has not ended; if that was cut short, unless the run
    /// started before its end. A failure that does not count changes nothing: the backoff continues.
    pub(super) fn fail(&mut self, key: u32, now: u64) -> (u32, Option<u64>) {
        let is_known = self.is_dirty(key) || self.is_waiting(key) || self.runs.contains_key(&key);
        if !is_known {
            self.recall(key, now);
            self.idle.push((key, self.expiry(now)));
        }
        let is_early = self.runs.get(&key).is_some_and(|run| run.is_early);
        let until = match self.backoffs.get(&key) {
            Some(Backoff::Until(time)) => Some(*time),
            _ => None,
        };
        if !is_early || until.is_some_and(|until| until <= now) {
            let failures = self.failures.entry(key).or_default();
            *failures = (*failures + 1).min(4095);
            return (*failures, None);
        }
        (self.failures(key).max(1), until)
    }

    fn expiry(&self, now: u64) -> u64 {
        now.saturating_add(self.choices.memory).min((1 << 46) - 1)
    }

    pub(super) fn forget(&mut self, key: u32) {
        self.failures.remove(&key);
        self.backoffs.remove(&key);
        if let Some(run) = self.runs.get_mut(&key) {
            run.is_early = false;
        }
        self.idle.retain(|(idle, _)| *idle != key);
    }

    /// How long the run took.
    pub(super) fn finish(&mut self, key: u32, now: u64) -> u64 {
        let run = self.runs.remove(&key).expect("a worker has it");
        self.retries_due.remove(&key);
        match self.again.remove(&key) {
            Some((since, priority)) => self.push(key, priority, since),
            None if self.is_waiting(key) => {}
            None => {
                self.backoffs.remove(&key);
                if self.failures(key) > 0 {
                    self.idle.push((key, self.expiry(now)));
                }
            }
        }
        for _ in 0..crate::machine::failures::EXPIRIES {
            match self.idle.first() {
                Some((key, expiry)) if *expiry <= now => {
                    self.failures.remove(key);
                    self.idle.remove(0);
                }
                _ => break,
            }
        }
        now - run.begun
    }

    /// An idle key becomes active. Failures that are too old are removed.
    fn recall(&mut self, key: u32, now: u64) {
        if let Some(at) = self.idle.iter().position(|(idle, _)| *idle == key) {
            let (_, expiry) = self.idle.remove(at);
            if expiry <= now {
                self.failures.remove(&key);
            }
        }
    }
}
