//! The work queue as a state machine: no clock, no lock, no task.
//!
//! Whoever drives it says what time it is, never an earlier one than before, and hashes keys with the hasher it gave. What
//! each call means for those who wait for keys is for the driver to see afterwards: [`QueueMachine::len`], [`QueueMachine::next_time`],
//! [`QueueMachine::is_over`] and [`QueueMachine::is_drained`] cost nothing.
//!
//! Code of the user's is called when all is whole: how keys are hashed, compared and cloned, whose they are, and a storage. It
//! may panic, and the worst that comes of it is that the key it was called for is not in the queue.
//!
//! A key is taken when it is handed out to a worker. While the worker has it, that is a run, which ends when it is finished.

mod failures;
mod index;
pub(crate) mod keys;
pub(crate) mod ready_queue;
mod requeue;
pub(crate) mod time;
mod timing_wheel;

use std::collections::HashMap;
use std::time::Duration;

use rapidhash::quality::RandomState;

use self::failures::EXPIRIES;
pub(crate) use self::failures::Failed;
use self::keys::{Flag, Keys, NONE, Slot};
use self::ready_queue::{OrderRules, ReadyQueue, Ticket};
pub(crate) use self::requeue::Requeue;
use self::time::Time;
use self::timing_wheel::TimingWheel;
use crate::Key;
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

/// Whose a key is, as a number.
pub(crate) type Tenant<K> = Box<dyn Fn(&K) -> u64 + Send + Sync>;

/// What may be chosen.
pub(crate) struct MachineSettings<K> {
    pub(crate) rules: OrderRules,
    pub(crate) ready_order: Option<Box<dyn ReadyOrder<K>>>,
    pub(crate) tenant: Option<Tenant<K>>,
    pub(crate) on_readd: OnReadd,
    /// The failures of a key are forgotten when it has been idle for so long.
    pub(crate) memory: Duration,
}

/// What a worker is given.
#[derive(Debug)]
pub(crate) struct TakenKey<K> {
    pub(crate) key: K,
    pub(crate) slot: Slot,
    pub(crate) run: Run,
    pub(crate) priority: i32,
    pub(crate) failures: u32,
    /// How long the key was dirty.
    pub(crate) waited: Duration,
}

/// The number of a run among those that have not ended.
pub(crate) type Run = u32;

/// What became of a call to [`QueueMachine::take`].
#[derive(Debug)]
pub(crate) enum TakeResult<K> {
    Taken(TakenKey<K>),
    /// There is nothing now.
    Empty,
    /// There is nothing and will be nothing.
    Over,
    /// So many keys have become due that it would take long. Call again.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueuePhase {
    Running,
    /// Nothing is added any more; `flush` if those who wait are handed out at once.
    Draining {
        flush: bool,
    },
    ShutDown,
}

/// A key that was added while it was being processed.
struct Again {
    since: Time,
    priority: i32,
    /// Nobody has added it: its backoff ended meanwhile.
    is_retry: bool,
}

/// How much is done for keys that have become due before others get a turn with the queue.
const EFFORT: usize = 1024;

/// The tenants of so many slots are kept even if there are no keys.
const FEW_TENANTS: usize = 4096;

pub(crate) struct QueueMachine<K> {
    keys: Keys<K>,
    ready: ReadyQueue,
    waiting: TimingWheel,
    again: HashMap<Slot, Again>,
    /// Keys of which nothing is known but that they failed: the ring of them, the first to be forgotten at its head.
    idle: Slot,
    /// Keys that have failures.
    failing: usize,
    /// When each run that has not ended began.
    runs: Vec<Option<Time>>,
    free_runs: Vec<Run>,
    /// How many keys are ready in a storage of the user's.
    stored: usize,
    /// Whose keys are, by slot, if tenants take turns.
    tenants: Vec<u64>,
    /// Keys that were forgotten and not dropped yet.
    gone: Vec<K>,
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
            tenants: Vec::new(),
            gone: Vec::new(),
            phase: QueuePhase::Running,
            settings,
            adds: 0,
            retries: 0,
        }
    }

    /// How many keys could be handed out now. Those that have become due since the last call that was told the time are not
    /// among them.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.stored
    }

    /// How many keys need processing, also those that are being processed meanwhile.
    pub(crate) fn depth(&self) -> usize {
        self.len() + self.again.len()
    }

    /// The depth by priority, without priorities of which there are no keys.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (i32, usize)> {
        let depths = self.ready.priorities().map(|priority| (priority, self.depth_of(priority)));
        depths.filter(|(_, depth)| *depth > 0)
    }

    /// From now on, it is noted of which priorities the depth changes.
    pub(crate) fn note_depths(&mut self) {
        self.ready.note_changes();
    }

    /// One of the priorities of which that was noted, and its depth.
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

    /// How many keys have failed and not succeeded since.
    pub(crate) fn failing(&self) -> usize {
        self.failing
    }

    /// When those runs began that have not ended.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Time> {
        self.runs.iter().filter_map(|begin| *begin)
    }

    /// Since when the key that has been ready for longest has been dirty, as far as the fronts of the lines tell. Not known of
    /// a storage of the user's.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.ready.oldest()
    }

    /// How often a key has become dirty.
    pub(crate) fn adds(&self) -> u64 {
        self.adds
    }

    /// How often a key was added for later.
    pub(crate) fn retries(&self) -> u64 {
        self.retries
    }

    /// Whether calls need to know the time. If not, any time will do.
    pub(crate) fn needs_time(&self) -> bool {
        self.waiting.len() > 0 || self.failing > 0 || self.ready.needs_time()
    }

    /// When a key becomes due next. If those who wait are to be handed out at once, that is long ago.
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

    pub(crate) fn is_running(&self) -> bool {
        self.phase == QueuePhase::Running
    }

    /// Whether nothing will be handed out any more.
    pub(crate) fn is_over(&self) -> bool {
        self.phase != QueuePhase::Running && self.depth() == 0 && !(self.is_flushing() && self.waiting.len() > 0)
    }

    /// Whether, besides, nothing is being processed any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_over() && self.processing() == 0
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.phase == QueuePhase::ShutDown
    }

    fn is_flushing(&self) -> bool {
        self.phase == QueuePhase::Draining { flush: true }
    }

    /// Adds a key, unless it is dirty. Answers with the key if it was known, for the driver to drop.
    pub(crate) fn add(&mut self, hash: u64, key: K, priority: i32, now: Time) -> Option<K> {
        if !self.is_running() {
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
                self.make_dirty(slot, priority, now);
                None
            }
        }
    }

    /// Adds a key when it is `time`; `backoff` if that is because it failed. Answers with the key if it was known.
    pub(crate) fn add_at(
        &mut self,
        hash: u64,
        key: K,
        priority: i32,
        time: Time,
        backoff: bool,
        now: Time,
    ) -> Option<K> {
        if !self.is_running() {
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
        self.make_dirty(slot, priority, now);
    }

    /// The same as [`add_at`](Self::add_at) for a key that is known, such as one that a worker has.
    pub(crate) fn add_slot_at(&mut self, slot: Slot, priority: i32, time: Time, backoff: bool, now: Time) {
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
            // It does not wait for its backoff, and so the next failure may come too early to count.
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
            // Of a key that is ready, these say that it is so too early.
            entry.clear(Flag::Backoff);
            entry.clear(Flag::Cut);
        }
        self.waiting.insert(&mut self.keys, slot, time, now);
        self.reserve(slot, priority, true, now);
    }

    /// Hands out a key, if one is ready.
    pub(crate) fn take(&mut self, now: Time) -> TakeResult<K> {
        let is_busy = self.advance(now);
        while let Some((ticket, priority)) = self.pop(now) {
            // A storage of the user's could answer with a ticket that it has answered with before.
            if !self.keys.holds(ticket.slot) {
                continue;
            }
            let entry = self.keys.entry_mut(ticket.slot);
            if !entry.has(Flag::Dirty) || entry.has(Flag::Processing) {
                continue;
            }
            entry.clear(Flag::Dirty);
            // Should the clone panic, the key is not in the queue, and can be added.
            let Some(key) = self.keys.key(ticket.slot).cloned() else { continue };
            let entry = self.keys.entry_mut(ticket.slot);
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
            self.runs[run as usize] = Some(now);
            let waited = now.since(ticket.since);
            return TakeResult::Taken(TakenKey { key, slot: ticket.slot, run, priority, failures, waited });
        }
        match is_busy {
            true => TakeResult::Busy,
            false if self.is_over() => TakeResult::Over,
            false => TakeResult::Empty,
        }
    }

    /// Makes keys ready whose time has come. True if there are more of them.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
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
                // Since when is not known any more.
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

    /// The worker is done with its key. Answers how long it had it, and with the key if that is in the queue no longer, for the
    /// driver to drop.
    pub(crate) fn finish(&mut self, slot: Slot, run: Run, now: Time) -> (Duration, Option<K>) {
        self.advance(now);
        if !self.keys.holds(slot) || !self.keys.entry(slot).has(Flag::Processing) {
            return (Duration::ZERO, None);
        }
        let entry = self.keys.entry_mut(slot);
        entry.clear(Flag::Processing);
        entry.clear(Flag::Early);
        let again = if entry.has(Flag::Dirty) { self.again.remove(&slot) } else { None };
        let begun = self.runs[run as usize].take();
        self.free_runs.push(run);
        let key = match again {
            Some(again) => {
                self.ready.release(again.priority);
                self.keys.entry_mut(slot).clear(Flag::Dirty);
                self.push(slot, again.priority, again.since);
                None
            }
            None => self.release(slot, now),
        };
        self.expire(now, EXPIRIES);
        (begun.map_or(Duration::ZERO, |begun| now.since(begun)), key)
    }

    /// Ends it: nothing is added any more, what is ready is still handed out, what waits is not.
    pub(crate) fn shut_down(&mut self) {
        self.phase = QueuePhase::ShutDown;
    }

    /// Begins to end it, unless it has been ended; `flush` if what waits is to be handed out too. Of several who want different
    /// things, the one holds that is over sooner.
    pub(crate) fn drain(&mut self, flush: bool) {
        self.phase = match self.phase {
            QueuePhase::Running => QueuePhase::Draining { flush },
            QueuePhase::Draining { flush: flushes } => QueuePhase::Draining { flush: flushes && flush },
            QueuePhase::ShutDown => QueuePhase::ShutDown,
        };
    }

    /// A dirty key was added.
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
        if let Some(storage) = &mut self.settings.ready_order {
            if let Some(key) = self.keys.key(slot) {
                storage.touch(key);
            }
            return;
        }
        self.raise(slot, priority, now);
    }

    /// Raises the priority of a key that is ready. It has been so since it became dirty, which its entry says unless something
    /// else was to be said there since; then it counts as added now.
    fn raise(&mut self, slot: Slot, priority: i32, now: Time) {
        let entry = self.keys.entry(slot);
        let is_known = !entry.has(Flag::Waiting) && !entry.has(Flag::Backoff);
        let since = if is_known { entry.time().min(now) } else { now };
        self.ready.raise(slot, priority, self.tenant(slot), since);
    }

    fn make_dirty(&mut self, slot: Slot, priority: i32, since: Time) {
        let entry = self.keys.entry_mut(slot);
        if !entry.has(Flag::Waiting) && !entry.has(Flag::Backoff) {
            entry.set_time(since);
        }
        if entry.has(Flag::Processing) {
            entry.set(Flag::Dirty);
            self.ready.hold(priority);
            self.again.insert(slot, Again { since, priority, is_retry: false });
        } else {
            self.push(slot, priority, since);
        }
        self.adds += 1;
    }

    /// Remembers what priority a waiting key is to have. If it is ready meanwhile, it has that already: there is one priority
    /// of a key, and the highest holds.
    fn reserve(&mut self, slot: Slot, priority: i32, is_first: bool, now: Time) {
        let entry = self.keys.entry(slot);
        if !entry.has(Flag::Dirty) || entry.has(Flag::Processing) {
            self.ready.reserve(slot, priority, is_first);
        } else if self.settings.ready_order.is_none() {
            self.raise(slot, priority, now);
        }
    }

    /// Puts a key into the order. It is dirty when that is done: should a storage of the user's panic, the key is not in the
    /// queue, and can be added.
    fn push(&mut self, slot: Slot, priority: i32, since: Time) {
        let is_waiting = self.keys.entry(slot).has(Flag::Waiting);
        let priority = if is_waiting { priority.max(self.ready.reserved(slot)) } else { priority };
        match &mut self.settings.ready_order {
            None => self.ready.push(slot, priority, self.tenant(slot), since),
            Some(storage) => {
                let Some(key) = self.keys.key(slot) else { return };
                storage.push(key, Ticket { slot, stamp: 0, since });
                self.stored += 1;
                self.ready.note(0);
            }
        }
        self.keys.entry_mut(slot).set(Flag::Dirty);
    }

    fn pop(&mut self, now: Time) -> Option<(Ticket, i32)> {
        let Some(storage) = &mut self.settings.ready_order else { return self.ready.pop(now) };
        let ticket = storage.pop();
        self.stored = if ticket.is_some() { self.stored.saturating_sub(1) } else { 0 };
        self.ready.note(0);
        Some((ticket?, 0))
    }

    /// Whose the key is.
    fn tenant(&self, slot: Slot) -> u64 {
        self.tenants.get(slot as usize).copied().unwrap_or_default()
    }

    /// Asks the user whose a key is. That is done before anything is changed, once in the life of a key, and on behalf of
    /// whoever adds it.
    fn tenant_of(&self, key: &K) -> u64 {
        self.settings.tenant.as_ref().map_or(0, |tenant| tenant(key))
    }

    /// The slot of a key or, if it has none, its tenant.
    fn find(&self, hash: u64, key: &K) -> Result<Slot, u64> {
        self.keys.find(hash, key).ok_or_else(|| self.tenant_of(key))
    }

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

    /// Nobody has the key any more.
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
            self.ready.trim();
            if self.tenants.capacity() > FEW_TENANTS {
                self.tenants = Vec::new();
            }
        }
        key
    }

    /// The keys whose failures were forgotten, and that are in the queue no longer: to be dropped when the lock is released,
    /// because what their destructors do is up to the user.
    #[inline]
    pub(crate) fn take_gone(&mut self) -> Vec<K> {
        std::mem::take(&mut self.gone)
    }
}

#[cfg(test)]
mod tests;
