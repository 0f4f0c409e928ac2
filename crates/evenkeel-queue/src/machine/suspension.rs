//! Keys that are suspended or removed as a group: those that a predicate matches.
//!
//! A ready key is set aside when it reaches the front, so that suspending costs nothing per key. It stays dirty, and its priority stays
//! reserved; resuming makes it ready again.

use std::collections::HashMap;

use super::keys::{Entry, Flag, Slot};
use super::time::Time;
use super::{QueueMachine, Run};
use crate::Key;

/// Selects keys.
pub(crate) type KeyPredicate<K> = Box<dyn Fn(&K) -> bool + Send + Sync>;

/// Identifies a suspension, or a group of awaited runs.
pub(crate) type GroupId = u64;

/// What happens to adds of suspended keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendedAdds {
    /// They take effect; the keys are handed out when they are resumed.
    Hold,
    /// They are ignored, and so are returns of keys in flight: retries and requeues.
    Refuse,
}

/// The suspensions in effect, and the keys and runs that they concern.
pub(super) struct Suspensions<K> {
    active: Vec<ActiveSuspension<K>>,
    /// Dirty keys that were ready and are suspended.
    held: HashMap<Slot, HeldKey>,
    /// Runs whose ends are awaited, by group. Groups without runs are complete.
    awaited: Vec<(GroupId, Vec<Run>)>,
    /// Whether a group is complete since the waiters were last called.
    has_completed: bool,
    last: GroupId,
    holds: u64,
}

struct ActiveSuspension<K> {
    id: GroupId,
    adds: SuspendedAdds,
    matches: KeyPredicate<K>,
}

#[derive(Clone, Copy)]
struct HeldKey {
    /// When the key became dirty.
    since: Time,
    /// The order in which keys were set aside.
    number: u64,
}

impl<K> Suspensions<K> {
    pub(super) fn new() -> Self {
        let (active, awaited) = (Vec::new(), Vec::new());
        Suspensions { active, held: HashMap::new(), awaited, has_completed: false, last: 0, holds: 0 }
    }

    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.active.is_empty()
    }

    #[inline]
    pub(super) fn awaits_any(&self) -> bool {
        !self.awaited.is_empty()
    }

    pub(super) fn is_held(&self, slot: Slot) -> bool {
        self.held.contains_key(&slot)
    }

    /// Returns whether a key must not be handed out.
    pub(super) fn matches(&self, key: &K) -> bool {
        self.active.iter().any(|suspension| (suspension.matches)(key))
    }

    /// Returns whether adds of a key are ignored.
    pub(super) fn refuses(&self, key: &K) -> bool {
        let mut refusing = self.active.iter().filter(|suspension| suspension.adds == SuspendedAdds::Refuse);
        refusing.any(|suspension| (suspension.matches)(key))
    }

    /// Sets a dirty key aside that was ready.
    pub(super) fn hold(&mut self, slot: Slot, since: Time) {
        self.holds += 1;
        self.held.insert(slot, HeldKey { since, number: self.holds });
    }

    /// Records the end of a run.
    #[cold]
    pub(super) fn ended(&mut self, run: Run) {
        for (_, runs) in self.awaited.iter_mut().filter(|(_, runs)| !runs.is_empty()) {
            runs.retain(|awaited| *awaited != run);
            self.has_completed |= runs.is_empty();
        }
    }

    fn next_id(&mut self) -> GroupId {
        self.last += 1;
        self.last
    }
}

impl<K: Key> QueueMachine<K> {
    /// Suspends the keys that match.
    pub(crate) fn suspend(&mut self, adds: SuspendedAdds, matches: KeyPredicate<K>) -> GroupId {
        let id = self.suspensions.next_id();
        self.suspensions.active.push(ActiveSuspension { id, adds, matches });
        id
    }

    /// Ends a suspension. Returns its predicate, for the driver to drop, and the keys that were set aside, in that order, for
    /// [`resume_held`](Self::resume_held).
    pub(crate) fn resume(&mut self, id: GroupId) -> (Option<KeyPredicate<K>>, Vec<Slot>) {
        let suspensions = &mut self.suspensions;
        let position = suspensions.active.iter().position(|suspension| suspension.id == id);
        let ended = position.map(|position| suspensions.active.swap_remove(position).matches);
        let mut held: Vec<(u64, Slot)> = suspensions.held.iter().map(|(slot, held)| (held.number, *slot)).collect();
        held.sort_unstable();
        (ended, held.into_iter().map(|(_, slot)| slot).collect())
    }

    /// Makes held keys ready that are not suspended any more. A queue that is shutting down drops them.
    pub(crate) fn resume_held(&mut self, slots: &[Slot]) {
        for slot in slots {
            if !self.suspensions.is_held(*slot) {
                continue;
            }
            let Some(key) = self.keys.key(*slot) else { continue };
            if self.suspensions.matches(key) {
                continue;
            }
            let Some(HeldKey { since, .. }) = self.suspensions.held.remove(slot) else { continue };
            self.keys.entry_mut(*slot).clear(Flag::Dirty);
            if self.is_running() {
                self.push(*slot, self.ready.reserved(*slot), since);
            } else if !self.keys.entry(*slot).has(Flag::Waiting) {
                let key = self.remove(*slot);
                self.removed.extend(key);
            }
        }
    }

    /// Returns the number of keys that are set aside.
    pub(crate) fn held(&self) -> usize {
        self.suspensions.held.len()
    }

    /// Returns whether the return of a key in flight is ignored.
    pub(crate) fn refuses_slot(&self, slot: Slot) -> bool {
        self.suspensions.is_any()
            && self.keys.get(slot).and_then(|entry| entry.key()).is_some_and(|key| self.suspensions.refuses(key))
    }

    /// Removes the keys of one page of slots that match, and the failures of those in flight. Returns clones of the keys; `None`
    /// beyond the last page.
    pub(crate) fn remove_page(&mut self, page: usize, matches: &dyn Fn(&K) -> bool) -> Option<Vec<K>> {
        let slots = self.keys.page(page)?;
        let mut removed = Vec::new();
        let mut stored = Vec::new();
        for slot in slots {
            let key = self.keys.get(slot).and_then(|entry| entry.key()).filter(|key| matches(key)).cloned();
            let Some(key) = key else { continue };
            removed.push(key);
            self.remove_slot(slot, &mut stored);
        }
        if !stored.is_empty() {
            self.remove_stored(&stored);
        }
        Some(removed)
    }

    /// Removes a key. One in a custom order is moved to `stored` instead, for [`remove_stored`](Self::remove_stored).
    fn remove_slot(&mut self, slot: Slot, stored: &mut Vec<Slot>) {
        // Of an idle key, failures are all there is.
        self.forget_slot(slot);
        let Some(entry) = self.keys.get_mut(slot) else { return };
        let is_ready = entry.has(Flag::Dirty) && !entry.has(Flag::Processing);
        let (is_waiting, is_in_flight) = (entry.has(Flag::Waiting), entry.has(Flag::Processing));
        entry.clear(Flag::Waiting);
        entry.clear(Flag::Dirty);
        if is_waiting {
            self.waiting.remove(&mut self.keys, slot);
        }
        if is_in_flight {
            if let Some(again) = self.again.remove(&slot) {
                self.ready.release(again.priority);
            }
            return;
        }
        if is_ready && self.suspensions.held.remove(&slot).is_none() {
            if self.settings.ready_order.is_some() {
                stored.push(slot);
                return;
            }
            self.ready.remove(slot, self.tenant(slot));
        }
        let key = self.remove(slot);
        self.removed.extend(key);
    }

    /// Removes keys from a custom order, which has no such call: it returns all tickets and receives the others again.
    fn remove_stored(&mut self, slots: &[Slot]) {
        let Some(order) = &mut self.settings.ready_order else { return };
        let mut others = Vec::with_capacity(self.stored);
        while let Some(ticket) = order.pop() {
            let is_ready = |entry: &Entry<K>| entry.has(Flag::Dirty) && !entry.has(Flag::Processing);
            if self.keys.get(ticket.slot).is_some_and(is_ready) {
                others.push(ticket);
            }
        }
        self.stored = 0;
        for ticket in others {
            if let Some(key) = self.keys.key(ticket.slot) {
                order.push(key, ticket);
                self.stored += 1;
            }
        }
        self.ready.note(0);
        for slot in slots {
            let key = self.remove(*slot);
            self.removed.extend(key);
        }
    }

    /// Starts to await the runs in flight whose keys match. Returns the group, and the number of runs.
    pub(crate) fn await_runs(&mut self, matches: &dyn Fn(&K) -> bool) -> (GroupId, usize) {
        let is_match = |slot: Slot| self.keys.get(slot).and_then(|entry| entry.key()).is_some_and(matches);
        let runs = self.runs.iter().zip(0..).filter_map(|(begun, run)| Some((run, begun.as_ref()?.slot)));
        let awaited: Vec<Run> = runs.filter(|(_, slot)| is_match(*slot)).map(|(run, _)| run).collect();
        let (id, count) = (self.suspensions.next_id(), awaited.len());
        self.suspensions.awaited.push((id, awaited));
        (id, count)
    }

    /// Returns the number of runs of a group that have not ended.
    pub(crate) fn awaited_runs(&self, id: GroupId) -> usize {
        self.suspensions.awaited.iter().find(|(group, _)| *group == id).map_or(0, |(_, runs)| runs.len())
    }

    /// Stops to await a group of runs.
    pub(crate) fn forget_runs(&mut self, id: GroupId) {
        self.suspensions.awaited.retain(|(group, _)| *group != id);
    }

    /// Returns whether a group of runs has ended since the last call.
    pub(crate) fn take_completed(&mut self) -> bool {
        std::mem::take(&mut self.suspensions.has_completed)
    }
}
