//! The work queue as a sans-IO state machine: no clock, no lock, no task.
//!
//! The driver passes in the time, which never decreases, and hashes keys with the hasher of [`QueueMachine::new`]. After each call
//! it reads [`QueueMachine::len`], [`QueueMachine::next_wake`], [`QueueMachine::is_over`] and [`QueueMachine::is_drained`], which are
//! cheap, and wakes waiting workers.
//!
//! User code runs only while the invariants hold: hashing, comparing and cloning keys, tenants, and a custom ready order. If it
//! panics, at worst the key it was called for is not in the queue.
//!
//! A key is taken when it is handed out to a worker. Its run ends when it is finished.

mod failures;
mod index;
pub(crate) mod keys;
pub(crate) mod ready_queue;
mod requeue;
mod suspension;
pub(crate) mod time;
mod timing_wheel;

use std::collections::HashMap;
use std::time::Duration;
use std::vec::Drain;

use evenkeel_base::planted::{Defect, is_planted};
use rapidhash::quality::RandomState;

use self::failures::EXPIRIES;
pub(crate) use self::failures::Failed;
use self::keys::{Flag, Keys, NONE, Slot};
use self::ready_queue::{OrderRules, ReadyQueue, Ticket};
pub(crate) use self::requeue::Requeue;
pub(crate) use self::suspension::GroupId;
pub use self::suspension::SuspendedAdds;
use self::suspension::Suspensions;
use self::time::Time;
use self::timing_wheel::TimingWheel;
use crate::Key;
use crate::inbox::DeferredCall;
use crate::ready_order::ReadyOrder;

/// What an add does to a delayed key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnReadd {
    /// Hands the key out now, and once more at its time, as client-go's delaying queue does.
    #[default]
    Keep,
    /// Hands the key out now and ends its delay: the earliest time wins. A ready key is not delayed again. This is what
    /// controller-runtime's priority queue does.
    Merge,
}

/// Maps a key to the hash of its tenant.
pub(crate) type Tenant<K> = Box<dyn Fn(&K) -> u64 + Send + Sync>;

/// The configuration of the machine.
pub(crate) struct MachineSettings<K> {
    pub(crate) rules: OrderRules,
    pub(crate) ready_order: Option<Box<dyn ReadyOrder<K>>>,
    pub(crate) tenant: Option<Tenant<K>>,
    pub(crate) on_readd: OnReadd,
    /// How long failures of an idle key are kept.
    pub(crate) memory: Duration,
}

/// A key handed out to a worker.
#[derive(Debug)]
pub(crate) struct TakenKey<K> {
    pub(crate) key: K,
    pub(crate) slot: Slot,
    pub(crate) run: Run,
    pub(crate) priority: i32,
    pub(crate) failures: u32,
    /// How long the key was ready.
    pub(crate) waited: Duration,
}

/// The index of a run in flight.
pub(crate) type Run = u32;

/// The result of [`QueueMachine::take`].
#[derive(Debug)]
pub(crate) enum TakeResult<K> {
    Taken(TakenKey<K>),
    /// No key is ready.
    Empty,
    /// The queue is shut down and empty.
    Over,
    /// More keys are due than one call handles. Call again.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuePhase {
    Running,
    /// Adds are ignored; `flush` hands out delayed keys at once.
    Draining {
        flush: bool,
    },
    ShutDown,
}

/// A key in flight that needs another run.
struct Again {
    since: Time,
    priority: i32,
    /// The reason is the end of a backoff, not an add.
    is_retry: bool,
}

/// A run in flight.
#[derive(Clone, Copy)]
struct RunInFlight {
    begun: Time,
    slot: Slot,
}

/// Due keys, or suspended ones, that are handled under one lock.
const EFFORT: usize = 1024;

/// Keys whose index entries are read ahead.
const WARM: usize = 16;

/// Slots whose tenants are kept even without keys.
const FEW_TENANTS: usize = 4096;

pub(crate) struct QueueMachine<K> {
    keys: Keys<K>,
    ready: ReadyQueue,
    waiting: TimingWheel,
    again: HashMap<Slot, Again>,
    /// The ring of idle keys, which have failures and nothing else. Its head expires first.
    idle: Slot,
    /// The number of keys with failures.
    failing: usize,
    /// The runs in flight, by their index.
    runs: Vec<Option<RunInFlight>>,
    free_runs: Vec<Run>,
    /// Ready keys in a custom order.
    stored: usize,
    /// Keys until the next read ahead.
    until_warm: usize,
    /// The tenants by slot, with fairness.
    tenants: Vec<u64>,
    /// Removed keys that are not dropped yet.
    removed: Vec<K>,
    suspensions: Suspensions<K>,
    phase: QueuePhase,
    settings: MachineSettings<K>,
    adds: u64,
    retries: u64,
}

impl<K: Key> QueueMachine<K> {
    pub(crate) fn new(settings: MachineSettings<K>, hasher: RandomState) -> Self {
        QueueMachine {
            keys: Keys::new(hasher),
            ready: ReadyQueue::new(settings.rules),
            waiting: TimingWheel::new(),
            again: HashMap::new(),
            idle: NONE,
            failing: 0,
            runs: Vec::new(),
            free_runs: Vec::new(),
            stored: 0,
            until_warm: 0,
            tenants: Vec::new(),
            removed: Vec::new(),
            suspensions: Suspensions::new(),
            phase: QueuePhase::Running,
            settings,
            adds: 0,
            retries: 0,
        }
    }

    /// Returns the number of ready keys. Keys that became due since the last call with a time are not included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.stored
    }

    /// Returns the number of keys that need processing, including those in flight that were added again.
    pub(crate) fn depth(&self) -> usize {
        self.len() + self.again.len()
    }

    /// Returns the depth by priority, without empty priorities.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (i32, usize)> {
        let depths = self.ready.priorities().map(|priority| (priority, self.depth_of(priority)));
        depths.filter(|(_, depth)| *depth > 0)
    }

    /// Starts to track priorities whose depth changes.
    pub(crate) fn note_depths(&mut self) {
        self.ready.note_changes();
    }

    /// Returns a priority whose depth has changed, and its depth.
    pub(crate) fn changed_depth(&mut self) -> Option<(i32, usize)> {
        let priority = self.ready.pop_changed()?;
        Some((priority, self.depth_of(priority)))
    }

    fn depth_of(&self, priority: i32) -> usize {
        self.ready.depth(priority) + if priority == 0 { self.stored } else { 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        if self.phase == QueuePhase::Running || self.is_flushing() { self.waiting.len() } else { 0 }
    }

    pub(crate) fn processing(&self) -> usize {
        self.runs.len() - self.free_runs.len()
    }

    /// Returns the number of keys with failures.
    pub(crate) fn failing(&self) -> usize {
        self.failing
    }

    /// Returns the starts of the runs in flight.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Time> {
        self.runs.iter().flatten().map(|run| run.begun)
    }

    /// Returns when the oldest ready key became dirty, as far as the fronts of the bands show. `None` with a custom order.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.ready.oldest()
    }

    /// Returns how often a key became dirty.
    pub(crate) fn adds(&self) -> u64 {
        self.adds
    }

    /// Returns the number of delayed adds.
    pub(crate) fn retries(&self) -> u64 {
        self.retries
    }

    /// Returns whether calls need the time. If not, any time is valid.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        self.waiting.len() > 0 || self.failing > 0 || self.ready.needs_time()
    }

    /// Returns the next due time. While delayed keys are flushed, it is in the past.
    pub(crate) fn next_time(&self) -> Option<Time> {
        match self.phase {
            QueuePhase::Running => self.waiting.next_time(),
            QueuePhase::Draining { flush: true } => self.waiting.next_time().map(|_| Time::ZERO),
            _ => None,
        }
    }

    /// Returns the next time at which a waiting worker has something to do: a key is due, or the failures of an idle key expire.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let expiry = self.next_expiry().filter(|_| self.is_running());
        self.next_time().into_iter().chain(expiry).min()
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.phase == QueuePhase::Running
    }

    /// Returns whether no key will be handed out any more.
    pub(crate) fn is_over(&self) -> bool {
        self.phase != QueuePhase::Running && self.depth() == 0 && !(self.is_flushing() && self.waiting.len() > 0)
    }

    /// Returns whether the queue is over and no key is in flight.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_over() && (self.processing() == 0 || is_planted(Defect::DrainTooEarly))
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.phase == QueuePhase::ShutDown
    }

    fn is_flushing(&self) -> bool {
        self.phase == QueuePhase::Draining { flush: true }
    }

    /// Adds a key, unless it is dirty. Returns the key if it was known, for the driver to drop.
    pub(crate) fn add(&mut self, hash: u64, key: K, priority: i32, now: Time) -> Option<K> {
        if !self.accepts(&key) {
            return Some(key);
        }
        match self.find(hash, &key) {
            Ok(slot) => {
                self.advance(now);
                self.add_slot(slot, priority, now);
                Some(key)
            }
            Err(tenant) => {
                self.advance(now);
                let slot = self.insert(hash, key, tenant);
                self.keys.entry_mut(slot).set_time(now);
                self.push(slot, priority, now);
                self.adds += 1;
                None
            }
        }
    }

    /// Adds a key at `time`; `backoff` if the delay is a backoff. Returns the key if it was known.
    pub(crate) fn add_at(
        &mut self,
        hash: u64,
        key: K,
        priority: i32,
        time: Time,
        backoff: bool,
        now: Time,
    ) -> Option<K> {
        if !self.accepts(&key) {
            return Some(key);
        }
        match self.find(hash, &key) {
            Ok(slot) => {
                self.add_slot_at(slot, priority, time, backoff, now);
                Some(key)
            }
            Err(tenant) => {
                let slot = self.insert(hash, key, tenant);
                self.add_slot_at(slot, priority, time, backoff, now);
                None
            }
        }
    }

    fn add_slot(&mut self, slot: Slot, priority: i32, now: Time) {
        let entry = self.keys.entry(slot);
        if entry.has(Flag::Dirty) {
            return self.add_again(slot, priority, now);
        }
        let mut priority = priority;
        if entry.has(Flag::Waiting) {
            if self.settings.on_readd == OnReadd::Merge {
                self.waiting.remove(&mut self.keys, slot);
                self.keys.entry_mut(slot).clear(Flag::Waiting);
                priority = priority.max(self.ready.reserved(slot));
            }
        } else {
            self.recall(slot, now);
        }
        if is_planted(Defect::AddInFlightAtOnce) {
            self.keys.entry_mut(slot).clear(Flag::Processing);
        }
        self.make_dirty(slot, priority, now);
    }

    /// Returns whether an add of a key has an effect.
    #[inline]
    pub(crate) fn accepts(&self, key: &K) -> bool {
        self.is_running() && !(self.suspensions.is_any() && self.suspensions.refuses(key))
    }

    /// Adds a key in flight at `time`, unless its returns are refused.
    pub(crate) fn return_at(&mut self, slot: Slot, priority: i32, time: Time, backoff: bool, now: Time) {
        if !self.refuses_slot(slot) {
            self.add_slot_at(slot, priority, time, backoff, now);
        }
    }

    /// As [`add_at`](Self::add_at), for a known key.
    fn add_slot_at(&mut self, slot: Slot, priority: i32, time: Time, backoff: bool, now: Time) {
        if !self.is_running() {
            return;
        }
        self.retries += 1;
        self.advance(now);
        if time <= now {
            return self.add_slot(slot, priority, now);
        }
        if backoff {
            self.put_off_retry(slot);
        }
        let entry = self.keys.entry_mut(slot);
        if entry.has(Flag::Waiting) {
            self.reserve(slot, priority, false, now);
            return self.wait_less(slot, time, backoff, now);
        }
        if entry.has(Flag::Dirty) && self.settings.on_readd == OnReadd::Merge {
            // The key does not wait for its backoff, so the next failure may be too early to count.
            if backoff && !(entry.has(Flag::Backoff) && entry.time() <= time) {
                entry.set_time(time);
                entry.set(Flag::Backoff);
            }
            return self.add_again(slot, priority, now);
        }
        self.recall(slot, now);
        let entry = self.keys.entry_mut(slot);
        entry.set(Flag::Waiting);
        if backoff {
            entry.set(Flag::Backoff);
            entry.clear(Flag::Cut);
        } else if !entry.has(Flag::Dirty) {
            // For a ready key these flags mean that it is ready too early.
            entry.clear(Flag::Backoff);
            entry.clear(Flag::Cut);
        }
        self.waiting.insert(&mut self.keys, slot, time, now);
        self.reserve(slot, priority, true, now);
    }

    /// Takes the next ready key.
    pub(crate) fn take(&mut self, now: Time) -> TakeResult<K> {
        let is_busy = self.advance(now);
        self.warm();
        let mut effort = EFFORT;
        while let Some((ticket, priority)) = self.pop(now) {
            // A custom order could return a ticket twice.
            let Some(entry) = self.keys.get_mut(ticket.slot) else { continue };
            if !entry.has(Flag::Dirty) || entry.has(Flag::Processing) {
                continue;
            }
            entry.clear(Flag::Dirty);
            // If the predicate or the clone panics, the key is not in the queue and can be added again.
            if self.suspensions.is_any() && entry.key().is_some_and(|key| self.suspensions.matches(key)) {
                entry.set(Flag::Dirty);
                self.suspensions.hold(ticket.slot, ticket.since);
                effort -= 1;
                if effort == 0 {
                    return TakeResult::Busy;
                }
                continue;
            }
            let Some(key) = entry.key().cloned() else { continue };
            entry.set(Flag::Processing);
            if entry.has(Flag::Backoff) {
                let goes_on = !entry.has(Flag::Cut) && now < entry.time();
                if entry.has(Flag::Cut) || goes_on {
                    entry.set(Flag::Early);
                }
                if !entry.has(Flag::Waiting) && !goes_on {
                    entry.clear(Flag::Backoff);
                    entry.clear(Flag::Cut);
                }
            }
            let failures = entry.failures();
            let run = self.free_runs.pop().unwrap_or_else(|| {
                self.runs.push(None);
                self.runs.len() as Run - 1
            });
            self.runs[run as usize] = Some(RunInFlight { begun: now, slot: ticket.slot });
            let waited = now.since(ticket.since);
            return TakeResult::Taken(TakenKey { key, slot: ticket.slot, run, priority, failures, waited });
        }
        match is_busy {
            true => TakeResult::Busy,
            false if self.is_over() => TakeResult::Over,
            false => TakeResult::Empty,
        }
    }

    /// Reads what the removals of the next keys will read, for a few keys at a time.
    #[inline]
    fn warm(&mut self) {
        if self.until_warm == 0 {
            self.until_warm = WARM;
            self.keys.warm_slots(self.ready.upcoming(WARM));
        }
        self.until_warm -= 1;
    }

    /// Makes due keys ready. Returns whether there are more.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        self.waiting.next_time().is_some() && self.advance_waiting(now)
    }

    fn advance_waiting(&mut self, now: Time) -> bool {
        let until = match self.phase {
            QueuePhase::Running => now,
            QueuePhase::Draining { flush: true } => Time::LAST,
            _ => return false,
        };
        if self.waiting.next_time().is_none_or(|time| time > until) {
            return false;
        }
        let mut effort = EFFORT;
        while let Some(slot) = self.waiting.pop_due(&mut self.keys, until, &mut effort) {
            let entry = self.keys.entry_mut(slot);
            entry.clear(Flag::Waiting);
            let is_retry = entry.has(Flag::Backoff) && !entry.has(Flag::Cut);
            if is_retry {
                entry.clear(Flag::Backoff);
                entry.clear(Flag::Early);
            }
            let (is_dirty, since) = (entry.has(Flag::Dirty), entry.time().min(now));
            let priority = self.ready.reserved(slot);
            if is_dirty {
                // The time it became dirty is lost.
                self.keys.entry_mut(slot).set_time(Time::LAST);
                self.add_again(slot, priority, now);
            } else {
                self.make_dirty(slot, priority, since);
                if is_retry && let Some(again) = self.again.get_mut(&slot) {
                    again.is_retry = true;
                }
            }
        }
        self.waiting.next_time().is_some_and(|time| time <= until)
    }

    /// Ends a run. Returns its duration, and the key if it is no longer in the queue, for the driver to drop.
    pub(crate) fn finish(&mut self, slot: Slot, run: Run, now: Time) -> (Duration, Option<K>) {
        self.advance(now);
        let entry = self.keys.get_mut(slot).filter(|entry| entry.has(Flag::Processing));
        let Some(entry) = entry else {
            if is_planted(Defect::AddInFlightAtOnce) {
                self.runs[run as usize] = None;
                self.free_runs.push(run);
            }
            return (Duration::ZERO, None);
        };
        entry.clear(Flag::Processing);
        entry.clear(Flag::Early);
        let again = if entry.has(Flag::Dirty) { self.again.remove(&slot) } else { None };
        let begun = self.runs[run as usize].take();
        self.free_runs.push(run);
        if self.suspensions.awaits_any() {
            self.suspensions.ended(run);
        }
        let key = match again {
            Some(again) => {
                self.ready.release(again.priority);
                self.keys.entry_mut(slot).clear(Flag::Dirty);
                self.push(slot, again.priority, again.since);
                None
            }
            None => self.release(slot, now),
        };
        if self.idle != NONE {
            self.expire(now, EXPIRIES);
        }
        (begun.map_or(Duration::ZERO, |run| now.since(run.begun)), key)
    }

    /// Applies deferred calls.
    pub(crate) fn apply(&mut self, calls: &mut Drain<'_, DeferredCall<K>>, now: Time) {
        self.keys.warm_hashes(calls.as_slice().iter().filter_map(|call| match call {
            DeferredCall::Add { hash, .. } => Some(*hash),
            DeferredCall::Finish { .. } => None,
        }));
        for call in calls {
            let key = match call {
                DeferredCall::Add { hash, key } => self.add(hash, key, 0, now),
                DeferredCall::Finish { slot, run, forgets } => {
                    if forgets {
                        self.forget_slot(slot);
                    }
                    self.finish(slot, run, now).1
                }
            };
            self.removed.extend(key);
        }
    }

    /// Shuts down: adds are ignored, ready keys are still handed out, delayed keys are not.
    pub(crate) fn shut_down(&mut self) {
        self.phase = QueuePhase::ShutDown;
    }

    /// Starts to drain, unless shut down; `flush` hands out delayed keys. Of several calls, one that discards wins.
    pub(crate) fn drain(&mut self, flush: bool) {
        self.phase = match self.phase {
            QueuePhase::Running => QueuePhase::Draining { flush },
            QueuePhase::Draining { flush: flushes } => QueuePhase::Draining { flush: flushes && flush },
            QueuePhase::ShutDown => QueuePhase::ShutDown,
        };
    }

    /// Handles an add of a dirty key.
    fn add_again(&mut self, slot: Slot, priority: i32, now: Time) {
        if let Some(again) = self.again.get_mut(&slot) {
            if again.priority < priority {
                self.ready.release(again.priority);
                self.ready.hold(priority);
                again.priority = priority;
            }
            again.is_retry = false;
            return;
        }
        if self.suspensions.is_held(slot) {
            self.ready.reserve(slot, priority, false);
            return;
        }
        if let Some(storage) = &mut self.settings.ready_order {
            if let Some(key) = self.keys.key(slot) {
                storage.touch(key);
            }
            return;
        }
        self.raise(slot, priority, now);
    }

    /// Raises the priority of a ready key. Its age is kept if the entry still has it; otherwise it counts as added now.
    fn raise(&mut self, slot: Slot, priority: i32, now: Time) {
        let entry = self.keys.entry(slot);
        let is_known = !entry.has(Flag::Waiting) && !entry.has(Flag::Backoff);
        let since = if is_known { entry.time().min(now) } else { now };
        self.ready.raise(slot, priority, self.tenant(slot), since);
    }

    #[inline]
    fn make_dirty(&mut self, slot: Slot, priority: i32, since: Time) {
        let entry = self.keys.entry_mut(slot);
        if !entry.has(Flag::Waiting) && !entry.has(Flag::Backoff) {
            entry.set_time(since);
        }
        if entry.has(Flag::Processing) {
            if is_planted(Defect::AddInFlightLost) {
                return;
            }
            entry.set(Flag::Dirty);
            self.ready.hold(priority);
            self.again.insert(slot, Again { since, priority, is_retry: false });
        } else {
            self.push(slot, priority, since);
        }
        self.adds += 1;
    }

    /// Records the priority of a delayed key. If the key is ready, too, its priority is raised: a key has one priority, the
    /// highest.
    fn reserve(&mut self, slot: Slot, priority: i32, is_first: bool, now: Time) {
        let entry = self.keys.entry(slot);
        if !entry.has(Flag::Dirty) || entry.has(Flag::Processing) {
            self.ready.reserve(slot, priority, is_first);
        } else if self.suspensions.is_held(slot) {
            self.ready.reserve(slot, priority, false);
        } else if self.settings.ready_order.is_none() {
            self.raise(slot, priority, now);
        }
    }

    /// Makes a key ready. The dirty flag is set last: if a custom order panics, the key is not in the queue and can be added.
    #[inline]
    fn push(&mut self, slot: Slot, priority: i32, since: Time) {
        let tenant = self.tenant(slot);
        let entry = self.keys.entry_mut(slot);
        let priority = if entry.has(Flag::Waiting) { priority.max(self.ready.reserved(slot)) } else { priority };
        match &mut self.settings.ready_order {
            None => self.ready.push(slot, priority, tenant, since),
            Some(storage) => {
                let Some(key) = entry.key() else { return };
                storage.push(key, Ticket { slot, stamp: 0, since });
                self.stored += 1;
                self.ready.note(0);
            }
        }
        entry.set(Flag::Dirty);
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<(Ticket, i32)> {
        let Some(storage) = &mut self.settings.ready_order else { return self.ready.pop(now) };
        let ticket = storage.pop();
        self.stored = if ticket.is_some() { self.stored.saturating_sub(1) } else { 0 };
        self.ready.note(0);
        Some((ticket?, 0))
    }

    /// Returns the tenant of a slot.
    #[inline]
    fn tenant(&self, slot: Slot) -> u64 {
        self.tenants.get(slot as usize).copied().unwrap_or_default()
    }

    /// Calls the user's tenant function: once for each new key, in the call that adds it, before any change.
    fn tenant_of(&self, key: &K) -> u64 {
        self.settings.tenant.as_ref().map_or(0, |tenant| tenant(key))
    }

    /// Returns the slot of a key or, if it has none, its tenant.
    fn find(&self, hash: u64, key: &K) -> Result<Slot, u64> {
        self.keys.find(hash, key).ok_or_else(|| self.tenant_of(key))
    }

    #[inline]
    fn insert(&mut self, hash: u64, key: K, tenant: u64) -> Slot {
        let slot = self.keys.insert(hash, key);
        if self.settings.tenant.is_some() {
            let at = slot as usize;
            if self.tenants.len() <= at {
                self.tenants.resize(at + 1, 0);
            }
            self.tenants[at] = tenant;
        }
        slot
    }

    /// Removes a finished key, or keeps it for its failures or its delay.
    #[inline]
    fn release(&mut self, slot: Slot, now: Time) -> Option<K> {
        let entry = self.keys.entry_mut(slot);
        if entry.has(Flag::Waiting) {
            return None;
        }
        if entry.failures() == 0 {
            return self.remove(slot);
        }
        self.remember(slot, now);
        None
    }

    #[inline]
    fn remove(&mut self, slot: Slot) -> Option<K> {
        let has_failed = self.keys.entry(slot).failures() > 0;
        let key = self.keys.remove(slot);
        self.failing -= usize::from(has_failed);
        if self.keys.len() == 0 {
            self.trim();
        }
        key
    }

    /// Frees memory when there are no keys.
    #[inline(never)]
    fn trim(&mut self) {
        self.ready.trim();
        if self.tenants.capacity() > FEW_TENANTS {
            self.tenants = Vec::new();
        }
    }

    /// Returns whether there are removed keys that are not dropped yet.
    #[inline]
    pub(crate) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Returns removed keys, to be dropped after the lock is released: their destructors are user code.
    #[inline]
    pub(crate) fn take_removed(&mut self) -> Vec<K> {
        std::mem::take(&mut self.removed)
    }
}

#[cfg(test)]
mod tests;
