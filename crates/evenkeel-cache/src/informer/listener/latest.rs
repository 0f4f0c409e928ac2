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
pub(super) struct Latest {
    order: VecDeque<Entry>,
    news: HashMap<ObjectKey, News>,
    /// Entries of `order` whose news are gone.
    stale: usize,
    ticket: u64,
}

#[derive(Debug)]
enum Entry {
    Object(ObjectKey, u64),
    Synced,
}

#[derive(Debug)]
struct News {
    /// What the handler saw last, if it has seen the object and it was not gone then.
    seen: Option<Object>,
    now: Now,
    /// Which entry of the line is ours.
    ticket: u64,
    /// When there first was something to tell.
    since: Instant,
}

#[derive(Debug)]
enum Now {
    There { object: Object, initial: bool },
    Gone(Deleted<Untyped>),
}

/// What comes out.
#[derive(Debug)]
pub(super) enum Item {
    Event(Event<Untyped>, Instant),
    Synced,
}

impl Latest {
    /// How many objects there is something to tell of.
    pub(super) fn len(&self) -> usize {
        self.news.len()
    }

    /// Everything that was pushed so far belongs to the first list.
    pub(super) fn push_synced(&mut self) {
        self.order.push_back(Entry::Synced);
    }

    /// When there first was something to tell of the object that is next.
    pub(super) fn since(&self) -> Option<Instant> {
        self.order.iter().find_map(|entry| match entry {
            Entry::Object(key, ticket) => {
                self.news.get(key).filter(|news| news.ticket == *ticket).map(|news| news.since)
            }
            Entry::Synced => None,
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
        if let Some(news) = self.news.get_mut(object.key()) {
            let initial = initial || matches!(news.now, Now::There { initial: true, .. });
            news.now = Now::There { object, initial };
            return;
        }
        let key = object.key().clone();
        self.enqueue(key, seen, Now::There { object, initial }, now);
    }

    fn gone(&mut self, deleted: Deleted<Untyped>, now: Instant) {
        match self.news.get_mut(deleted.key()) {
            Some(news) if news.seen.is_some() => news.now = Now::Gone(deleted),
            Some(_) => {
                self.news.remove(deleted.key());
                self.stale += 1;
                self.tidy();
            }
            None => {
                let seen = deleted.object().cloned();
                self.enqueue(deleted.key().clone(), seen, Now::Gone(deleted), now);
            }
        }
    }

    fn enqueue(&mut self, key: ObjectKey, seen: Option<Object>, now: Now, since: Instant) {
        self.ticket += 1;
        self.order.push_back(Entry::Object(key.clone(), self.ticket));
        self.news.insert(key, News { seen, now, ticket: self.ticket, since });
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        loop {
            let (key, ticket) = match self.order.pop_front()? {
                Entry::Synced => return Some(Item::Synced),
                Entry::Object(key, ticket) => (key, ticket),
            };
            if self.news.get(&key).is_none_or(|news| news.ticket != ticket) {
                self.stale -= 1;
                continue;
            }
            let Some(News { seen, now, since, .. }) = self.news.remove(&key) else { continue };
            let event = match (seen, now) {
                (None, Now::There { object, initial }) => Event::Add { object, initial },
                (Some(old), Now::There { object, .. }) => Event::Update { old, new: object },
                (_, Now::Gone(deleted)) => Event::Delete(deleted),
            };
            return Some(Item::Event(event, since));
        }
    }

    /// Keeps the line from growing with objects that come and go unseen.
    fn tidy(&mut self) {
        if self.stale <= 16 + self.news.len() {
            return;
        }
        let news = &self.news;
        self.order.retain(|entry| match entry {
            Entry::Object(key, ticket) => news.get(key).is_some_and(|news| news.ticket == *ticket),
            Entry::Synced => true,
        });
        self.stale = 0;
    }
}

#[cfg(test)]
mod tests;
