//! What one handler has yet to hear, at most one thing per object.

use std::collections::{HashMap, VecDeque};

use evenkeel_core::{ObjectKey, Untyped};
use tokio::time::Instant;

use crate::{Deleted, Event, Object};

/// What one handler has yet to hear, folded: of each object only what the handler has seen and what it is now.
///
/// An object keeps its place in line while it changes; one that came and went unseen is not told of at all. So this holds
/// no more entries than there are live objects and objects that the handler believes to be alive.
#[derive(Debug, Default)]
pub(super) struct LatestQueue {
    order: VecDeque<LatestEntry>,
    pending: HashMap<ObjectKey, PendingChange>,
    /// Entries of `order` whose pending are gone.
    stale: usize,
    ticket: u64,
}

#[derive(Debug)]
enum LatestEntry {
    Object(ObjectKey, u64),
    Synced,
}

#[derive(Debug)]
struct PendingChange {
    /// What the handler saw last, if it has seen the object and it was not gone then.
    seen: Option<Object>,
    now: ObjectState,
    /// Which entry of the line is ours.
    ticket: u64,
    /// When there first was something to tell.
    since: Instant,
}

#[derive(Debug)]
enum ObjectState {
    Present { object: Object, initial: bool },
    Deleted(Deleted<Untyped>),
}

/// What comes out.
#[derive(Debug)]
pub(super) enum LatestItem {
    Event(Event<Untyped>, Instant),
    Synced,
}

impl LatestQueue {
    /// How many objects there is something to tell of.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Everything that was pushed so far belongs to the first list.
    pub(super) fn push_synced(&mut self) {
        self.order.push_back(LatestEntry::Synced);
    }

    /// When there first was something to tell of the object that is next.
    pub(super) fn since(&self) -> Option<Instant> {
        self.order.iter().find_map(|entry| match entry {
            LatestEntry::Object(key, ticket) => {
                self.pending.get(key).filter(|pending| pending.ticket == *ticket).map(|pending| pending.since)
            }
            LatestEntry::Synced => None,
        })
    }

    pub(super) fn push(&mut self, event: Event<Untyped>, now: Instant) {
        match event {
            Event::Add { object, initial } => self.there(None, object, initial, now),
            Event::Update { old, new } => self.there(Some(old), new, false, now),
            Event::Delete(deleted) => self.gone(deleted, now),
        }
    }

    fn there(&mut self, seen: Option<Object>, object: Object, initial: bool, now: Instant) {
        if let Some(pending) = self.pending.get_mut(object.key()) {
            let initial = initial || matches!(pending.now, ObjectState::Present { initial: true, .. });
            pending.now = ObjectState::Present { object, initial };
            return;
        }
        let key = object.key().clone();
        self.enqueue(key, seen, ObjectState::Present { object, initial }, now);
    }

    fn gone(&mut self, deleted: Deleted<Untyped>, now: Instant) {
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

    /// Keeps the line from growing with objects that come and go unseen.
    fn tidy(&mut self) {
        if self.stale <= 16 + self.pending.len() {
            return;
        }
        let pending = &self.pending;
        self.order.retain(|entry| match entry {
            LatestEntry::Object(key, ticket) => pending.get(key).is_some_and(|pending| pending.ticket == *ticket),
            LatestEntry::Synced => true,
        });
        self.stale = 0;
    }
}

#[cfg(test)]
mod tests;
