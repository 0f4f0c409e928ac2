//! [`FollowedTable`]: what a plugin needs of the objects of one resource, kept up to date by following the store's history.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::store::{Record, Store, Unread};

/// What a function reads from each object of a resource. Objects of which it reads nothing cost nothing later.
#[derive(Debug)]
pub(super) struct FollowedTable<T> {
    table: &'static str,
    read: fn(&Value) -> Option<T>,
    followed: Mutex<Followed<T>>,
}

#[derive(Debug)]
struct Followed<T> {
    /// All changes up to this revision are read; `None` before the first use.
    revision: Option<u64>,
    /// By the keys of the objects.
    entries: BTreeMap<Box<str>, T>,
}

impl<T> FollowedTable<T> {
    pub(super) fn new(table: &'static str, read: fn(&Value) -> Option<T>) -> Self {
        let followed = Mutex::new(Followed { revision: None, entries: BTreeMap::new() });
        FollowedTable { table, read, followed }
    }

    /// Reads the changes since the last use, and passes the entries by key.
    pub(super) fn with<R>(&self, store: &Store, look: impl FnOnce(&BTreeMap<Box<str>, T>) -> R) -> R {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, unread) = store.unread(self.table, followed.revision);
        let mut set = |key: Box<str>, record: Option<&Record>| match record.and_then(|it| (self.read)(&it.value())) {
            Some(entry) => followed.entries.insert(key, entry),
            None => followed.entries.remove(&key),
        };
        match unread {
            Unread::Changes(events) => events.iter().for_each(|event| {
                set(event.key.clone(), event.current.as_deref());
            }),
            Unread::Everything(objects) => {
                followed.entries.clear();
                for (key, record) in objects {
                    if let Some(entry) = (self.read)(&record.value()) {
                        followed.entries.insert(key, entry);
                    }
                }
            }
        }
        followed.revision = Some(revision);
        look(&followed.entries)
    }
}
