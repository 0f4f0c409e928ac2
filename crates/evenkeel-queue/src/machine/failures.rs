//! Failures: which ones count, how a backoff continues, and when failures expire.

use evenkeel_base::planted::{Defect, is_planted};

use super::QueueMachine;
use super::keys::{Flag, NONE, Slot};
use super::time::Time;
use crate::Key;

/// The result of a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    /// Consecutive failures.
    pub(crate) failures: u32,
    /// The end of the current backoff, which continues because this failure was too early to count.
    pub(crate) until: Option<Time>,
}

/// Idle keys that are removed with each finished key, if their failures have expired.
pub(super) const EXPIRIES: usize = 2;
/// Idle keys that are removed under one lock by a worker that finds no key ready.
const EXPIRIES_WHEN_EMPTY: usize = 256;

impl<K: Key> QueueMachine<K> {
    /// Counts a failure of a key.
    ///
    /// A failure counts at most once per backoff. If the key was added for another reason before the end of its backoff and fails
    /// again, the failure does not count, and the backoff continues. A key that keeps failing has one failure that counts in each
    /// backoff.
    ///
    /// If another add cut the backoff short, its end is unknown, and a failure of the run that this led to does not count.
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

    /// Counts a failure of a key in flight.
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

    /// Returns the consecutive failures of a key.
    pub(crate) fn failures(&self, hash: u64, key: &K, now: Time) -> u32 {
        let slot = self.keys.find(hash, key);
        let slot = slot.filter(|slot| !self.is_idle(*slot) || now < self.keys.entry(*slot).time());
        slot.map_or(0, |slot| self.keys.entry(slot).failures())
    }

    /// Clears the failures of a key. A delayed key stays delayed.
    pub(crate) fn forget(&mut self, hash: u64, key: &K) {
        if let Some(slot) = self.keys.find(hash, key) {
            self.forget_slot(slot);
        }
    }

    /// Clears the failures of a key in flight.
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
            self.removed.extend(key);
        }
    }

    /// Withdraws the pending re-run of a failed key if its only reason is an earlier backoff that ended while the key was in
    /// flight.
    ///
    /// Without this, a key whose run takes longer than its backoff would return at once each time.
    pub(super) fn put_off_retry(&mut self, slot: Slot) {
        if let Some(again) = self.again.get(&slot).filter(|again| again.is_retry) {
            self.ready.release(again.priority);
            self.again.remove(&slot);
            self.keys.entry_mut(slot).clear(Flag::Dirty);
        }
    }

    /// Moves a delayed key to an earlier time.
    pub(super) fn wait_less(&mut self, slot: Slot, time: Time, backoff: bool, now: Time) {
        let entry = self.keys.entry_mut(slot);
        let had = entry.time();
        if backoff {
            // The earlier of two backoffs applies; one that another add ends is cut short.
            if time <= had {
                entry.clear(Flag::Cut);
            } else if !entry.has(Flag::Backoff) {
                entry.set(Flag::Cut);
            }
            entry.set(Flag::Backoff);
        } else if time < had && entry.has(Flag::Backoff) {
            entry.set(Flag::Cut);
        }
        let is_moved = if is_planted(Defect::LaterDelayKept) { time > had } else { time < had };
        if is_moved {
            self.waiting.remove(&mut self.keys, slot);
            self.waiting.insert(&mut self.keys, slot, time, now);
        }
    }

    /// Links a key that has only failures into the idle ring.
    pub(super) fn remember(&mut self, slot: Slot, now: Time) {
        let until = now.after(self.settings.memory);
        let entry = self.keys.entry_mut(slot);
        entry.clear(Flag::Backoff);
        entry.clear(Flag::Cut);
        entry.set_time(until);
        self.idle = self.keys.link(self.idle, slot);
    }

    /// Unlinks a key from the idle ring, if it is there, and clears its failures if they have expired.
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

    /// Returns whether the key is in the idle ring: it is in a ring, and not delayed.
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
            self.removed.extend(key);
        }
        self.next_expiry().is_some_and(|expiry| expiry <= now)
    }
}
