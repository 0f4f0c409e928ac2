//! Keys that fail: what counts, how long they back off, and when their failures are forgotten.

use super::QueueMachine;
use super::keys::{Flag, NONE, Slot};
use super::time::Time;
use crate::Key;

/// What is known of a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    /// How many there were in a row.
    pub(crate) failures: u32,
    /// When the backoff is over that goes on because this failure came too early to count.
    pub(crate) until: Option<Time>,
}

/// Idle keys that are removed with each finished key, if their failures have expired.
pub(super) const EXPIRIES: usize = 2;
/// Idle keys that are removed under one lock by a worker that finds no key ready.
const EXPIRIES_WHEN_EMPTY: usize = 256;

impl<K: Key> QueueMachine<K> {
    /// Counts a failure of a key.
    ///
    /// A failure of a worker does not count if it comes before the backoff for the last one is over: whoever added the key
    /// meanwhile did not know of it, and it says nothing new. That backoff then goes on. So failures count at most once in
    /// each backoff, however often the key is added, and a key that goes on failing has one that counts in each.
    ///
    /// If something else cut the backoff short, it is not known when it would have been over, and a failure of the run that
    /// this led to does not count.
    pub(crate) fn fail(&mut self, hash: u64, key: &K, now: Time) -> Failed {
        let slot = match self.keys.find(hash, key) {
            Some(slot) => slot,
            None => {
                let (key, tenant) = (key.clone(), self.tenant_of(key));
                let slot = self.insert(hash, key, tenant);
                self.remember(slot, now);
                slot
            }
        };
        if self.is_idle(slot) {
            self.recall(slot, now);
            self.remember(slot, now);
        }
        self.fail_slot(slot, now)
    }

    /// The same for a key that a worker has.
    pub(crate) fn fail_slot(&mut self, slot: Slot, now: Time) -> Failed {
        let entry = self.keys.entry_mut(slot);
        let is_known = entry.has(Flag::Backoff) && !entry.has(Flag::Cut);
        let is_over = is_known && entry.time() <= now;
        let is_early = entry.has(Flag::Processing) && entry.has(Flag::Early) && !is_over;
        if !is_early {
            let failures = entry.failures();
            entry.set_failures(failures.saturating_add(1));
            self.failing += usize::from(failures == 0);
        }
        let until = (is_early && is_known).then(|| entry.time());
        Failed { failures: entry.failures().max(1), until }
    }

    /// Failures of the key in a row.
    pub(crate) fn failures(&self, hash: u64, key: &K, now: Time) -> u32 {
        let slot = self.keys.find(hash, key);
        let slot = slot.filter(|slot| !self.is_idle(*slot) || now < self.keys.entry(*slot).time());
        slot.map_or(0, |slot| self.keys.entry(slot).failures())
    }

    /// The key has no failures any more. It goes on waiting if it does.
    pub(crate) fn forget(&mut self, hash: u64, key: &K) {
        if let Some(slot) = self.keys.find(hash, key) {
            self.forget_slot(slot);
        }
    }

    /// The same for a key that a worker has.
    pub(crate) fn forget_slot(&mut self, slot: Slot) {
        let entry = self.keys.entry_mut(slot);
        self.failing -= usize::from(entry.failures() > 0);
        entry.set_failures(0);
        if entry.has(Flag::Backoff) && !entry.has(Flag::Waiting) {
            entry.set_time(Time::LAST);
        }
        entry.clear(Flag::Backoff);
        entry.clear(Flag::Cut);
        entry.clear(Flag::Early);
        if self.is_idle(slot) {
            self.idle = self.keys.unlink(self.idle, slot);
            let key = self.remove(slot);
            self.gone.extend(key);
        }
    }

    /// A key has failed and is to back off. If it would be handed out once more because an earlier backoff ended while its
    /// worker had it, and for nothing else, it is not: that was the retry of a failure before this one.
    ///
    /// Without this, a key whose work takes longer than its backoff would come back at once each time.
    pub(super) fn put_off_retry(&mut self, slot: Slot) {
        if let Some(again) = self.again.get(&slot).filter(|again| again.is_retry) {
            self.ready.release(again.priority);
            self.again.remove(&slot);
            self.keys.entry_mut(slot).clear(Flag::Dirty);
        }
    }

    /// A key that waits is given another time.
    pub(super) fn wait_less(&mut self, slot: Slot, time: Time, backoff: bool, now: Time) {
        let entry = self.keys.entry_mut(slot);
        let had = entry.time();
        if backoff {
            // The earlier of two backoffs is over when it is over; one that something else ends is cut short.
            if time <= had {
                entry.clear(Flag::Cut);
            } else if !entry.has(Flag::Backoff) {
                entry.set(Flag::Cut);
            }
            entry.set(Flag::Backoff);
        } else if time < had && entry.has(Flag::Backoff) {
            entry.set(Flag::Cut);
        }
        if time < had {
            self.waiting.remove(&mut self.keys, slot);
            self.waiting.insert(&mut self.keys, slot, time, now);
        }
    }

    /// Puts a key that has nothing but failures among the idle.
    pub(super) fn remember(&mut self, slot: Slot, now: Time) {
        let until = now.after(self.settings.memory);
        let entry = self.keys.entry_mut(slot);
        entry.clear(Flag::Backoff);
        entry.clear(Flag::Cut);
        entry.set_time(until);
        self.idle = self.keys.link(self.idle, slot);
    }

    /// Takes a key from among the idle, if it is one. It may be that its failures should have been forgotten by now.
    pub(super) fn recall(&mut self, slot: Slot, now: Time) {
        if !self.is_idle(slot) {
            return;
        }
        self.idle = self.keys.unlink(self.idle, slot);
        let entry = self.keys.entry_mut(slot);
        if entry.time() <= now {
            self.failing -= usize::from(entry.failures() > 0);
            entry.set_failures(0);
        }
    }

    /// Whether the key is among the idle: it is in a ring, and not in one of those that wait.
    pub(super) fn is_idle(&self, slot: Slot) -> bool {
        let entry = self.keys.entry(slot);
        entry.next().is_some() && !entry.has(Flag::Waiting)
    }

    /// Removes idle keys whose failures have expired, a bounded number of them. Returns whether there are more.
    pub(crate) fn expire_idle(&mut self, now: Time) -> bool {
        self.expire(now, EXPIRIES_WHEN_EMPTY)
    }

    /// Returns the time at which the failures of the first idle key expire.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        (self.idle != NONE).then(|| self.keys.entry(self.idle).time())
    }

    /// Removes at most `limit` idle keys whose failures have expired. Returns whether there are more.
    pub(super) fn expire(&mut self, now: Time, limit: usize) -> bool {
        for _ in 0..limit {
            if self.next_expiry().is_none_or(|expiry| expiry > now) {
                return false;
            }
            let slot = self.idle;
            self.recall(slot, now);
            let key = self.remove(slot);
            self.gone.extend(key);
        }
        self.next_expiry().is_some_and(|expiry| expiry <= now)
    }
}
