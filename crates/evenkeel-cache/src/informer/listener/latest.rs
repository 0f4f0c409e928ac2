//! [`LatestQueue`]: the pending notifications of one handler, at most one per object.

use std::collections::{HashMap, VecDeque};

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{ObjectKey, Untyped};
use tokio::time::Instant;

use super::Barrier;
use crate::{Deleted, Event, Object};

/// The pending notifications of one handler, merged per object: the last state that the handler saw, and the current state.
///
/// An object keeps its position while it changes. An object that is added and deleted before its turn is dropped. So the number of
/// entries is bounded by the existing objects and those that the handler believes to exist.
#[derive(Debug, Default)]
pub(super) struct LatestQueue {
    order: VecDeque<LatestEntry>,
    pending: HashMap<ObjectKey, PendingChange>,
    /// The number of entries of `order` without a pending change.
    stale: usize,
    ticket: u64,
}

#[derive(Debug)]
enum LatestEntry {
    Object(ObjectKey, u64),
    Synced,
    Barrier(Barrier),
}

#[derive(Debug)]
struct PendingChange {
    /// The last state that the handler saw, unless that was a deletion.
    seen: Option<Object>,
    now: ObjectState,
    /// Identifies the entry in `order`.
    ticket: u64,
    /// When the change became pending.
    since: Instant,
}

#[derive(Debug)]
enum ObjectState {
    Present { object: Object, initial: bool },
    Deleted(Deleted<Untyped>),
}

/// What leaves the queue.
#[derive(Debug)]
pub(super) enum LatestItem {
    Event(Event<Untyped>, Instant),
    Synced,
    Barrier(Barrier),
}

impl LatestQueue {
    /// Returns the number of objects with a pending change.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Marks the end of the initial objects.
    pub(super) fn push_synced(&mut self) {
        self.order.push_back(LatestEntry::Synced);
    }

    /// Adds a barrier, which is dropped after all changes that are pending now. An object keeps its position, so its later changes may
    /// be delivered before the barrier too.
    pub(super) fn push_barrier(&mut self, barrier: Barrier) {
        self.order.push_back(LatestEntry::Barrier(barrier));
    }

    /// Returns since when the next change is pending.
    pub(super) fn since(&self) -> Option<Instant> {
        self.order.iter().find_map(|entry| match entry {
            LatestEntry::Object(key, ticket) => {
                self.pending.get(key).filter(|pending| pending.ticket == *ticket).map(|pending| pending.since)
            }
            LatestEntry::Synced | LatestEntry::Barrier(_) => None,
        })
    }

    pub(super) fn push(&mut self, event: Event<Untyped>, now: Instant) {
        match event {
            Event::Add { object, initial } => self.present(None, object, initial, now),
            Event::Update { old, new } => self.present(Some(old), new, false, now),
            Event::Delete(deleted) => self.deleted(deleted, now),
        }
    }

    fn present(&mut self, seen: Option<Object>, object: Object, initial: bool, now: Instant) {
        if let Some(pending) = self.pending.get_mut(object.key()) {
            let is_resync = || seen.as_ref().is_some_and(|seen| seen.is_same_state_as(&object));
            if is_planted(Defect::ResyncWrongOld) && pending.seen.is_some() && is_resync() {
                pending.seen = seen;
            }
            let initial = initial || matches!(pending.now, ObjectState::Present { initial: true, .. });
            pending.now = ObjectState::Present { object, initial };
            return;
        }
        let key = object.key().clone();
        self.enqueue(key, seen, ObjectState::Present { object, initial }, now);
    }

    fn deleted(&mut self, deleted: Deleted<Untyped>, now: Instant) {
        match self.pending.get_mut(deleted.key()) {
            Some(pending) if pending.seen.is_some() => pending.now = ObjectState::Deleted(deleted),
            Some(_) => {
                self.pending.remove(deleted.key());
                self.stale += 1;
                self.tidy();
            }
            None => {
                let seen = deleted.object().cloned();
                self.enqueue(deleted.key().clone(), seen, ObjectState::Deleted(deleted), now);
            }
        }
    }

    fn enqueue(&mut self, key: ObjectKey, seen: Option<Object>, now: ObjectState, since: Instant) {
        self.ticket += 1;
        self.order.push_back(LatestEntry::Object(key.clone(), self.ticket));
        self.pending.insert(key, PendingChange { seen, now, ticket: self.ticket, since });
    }

    pub(super) fn pop(&mut self) -> Option<LatestItem> {
        loop {
            let (key, ticket) = match self.order.pop_front()? {
                LatestEntry::Synced => return Some(LatestItem::Synced),
                LatestEntry::Barrier(barrier) => return Some(LatestItem::Barrier(barrier)),
                LatestEntry::Object(key, ticket) => (key, ticket),
            };
            if self.pending.get(&key).is_none_or(|pending| pending.ticket != ticket) {
                self.stale -= 1;
                continue;
            }
            let Some(PendingChange { seen, now, since, .. }) = self.pending.remove(&key) else { continue };
            let event = match (seen, now) {
                (None, ObjectState::Present { object, initial }) => Event::Add { object, initial },
                (Some(old), ObjectState::Present { object, .. }) => Event::Update { old, new: object },
                (_, ObjectState::Deleted(deleted)) => Event::Delete(deleted),
            };
            return Some(LatestItem::Event(event, since));
        }
    }

    /// Removes stale entries, so that the queue does not grow with objects that are added and deleted before their turn.
    fn tidy(&mut self) {
        if self.stale <= 16 + self.pending.len() {
            return;
        }
        let pending = &self.pending;
        self.order.retain(|entry| match entry {
            LatestEntry::Object(key, ticket) => pending.get(key).is_some_and(|pending| pending.ticket == *ticket),
            LatestEntry::Synced | LatestEntry::Barrier(_) => true,
        });
        self.stale = 0;
    }
}

#[cfg(test)]
mod tests;
