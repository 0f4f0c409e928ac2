//! [`Overlay`]: recent writes, with expiration and least-recently-used eviction.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Object;

/// State of an object beside the stored one.
#[derive(Debug)]
pub(super) enum Local {
    /// The object that a write returned.
    Written(Object),
    /// A tombstone.
    Gone { uid: Box<str>, version: ResourceVersion },
}

impl Local {
    pub(super) fn object(&self) -> Option<&Object> {
        match self {
            Local::Written(object) => Some(object),
            Local::Gone { .. } => None,
        }
    }
}

#[derive(Debug)]
struct WriteEntry {
    local: Local,
    /// `None` if that overflows.
    expires: Option<Instant>,
    /// Position in the order of use.
    turn: u64,
}

impl WriteEntry {
    fn is_live(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

#[derive(Debug)]
pub(super) struct Overlay {
    entries: HashMap<ObjectKey, WriteEntry>,
    /// Keys by position in the order of use.
    order: BTreeMap<u64, ObjectKey>,
    next_turn: u64,
    capacity: usize,
    ttl: Duration,
}

impl Overlay {
    pub(super) fn new(capacity: usize, ttl: Duration) -> Self {
        Overlay { entries: HashMap::new(), order: BTreeMap::new(), next_turn: 0, capacity, ttl }
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.make_room();
    }

    pub(super) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = ttl;
    }

    /// Returns the state of this object, and marks it as used.
    pub(super) fn get(&mut self, key: &str, now: Instant) -> Option<&Local> {
        if !self.entries.get(key)?.is_live(now) {
            self.remove(key);
            return None;
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.order.remove(&std::mem::replace(&mut entry.turn, turn)) {
            self.order.insert(turn, key);
        }
        Some(&entry.local)
    }

    pub(super) fn put(&mut self, key: ObjectKey, local: Local, now: Instant) {
        self.remove(key.as_str());
        let turn = self.next_turn;
        self.next_turn += 1;
        self.order.insert(turn, key.clone());
        self.entries.insert(key, WriteEntry { local, expires: now.checked_add(self.ttl), turn });
        self.make_room();
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.turn);
        }
    }

    /// Returns the keys of written objects, in no particular order.
    pub(super) fn written(&self, now: Instant) -> Vec<ObjectKey> {
        let live = self.entries.iter().filter(|(_, entry)| entry.is_live(now) && entry.local.object().is_some());
        live.map(|(key, _)| key.clone()).collect()
    }

    fn make_room(&mut self) {
        while self.entries.len() > self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.entries.remove(&oldest);
        }
    }
}
