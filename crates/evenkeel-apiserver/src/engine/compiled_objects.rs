//! [`CompiledObjects`]: a compiled form of each object of a resource that decides about requests, such as admission
//! configurations.
//!
//! The forms follow the history of the store instead of being told of each write (see
//! [`ServiceAddresses`](super::service_addresses)): a request that finds no new change costs two locks and compiles nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::{Record, Store, Unread};

/// The compiled forms of all objects of a resource, by key, as of one revision.
pub(crate) type CompiledMap<T> = Arc<BTreeMap<Box<str>, Arc<T>>>;

/// The compiled forms of the objects of one resource.
pub(crate) struct CompiledObjects<T> {
    table: &'static str,
    compile: fn(&str, &Record) -> T,
    current: Mutex<FollowedForms<T>>,
}

struct FollowedForms<T> {
    /// All changes up to this revision are read; `None` before the first use.
    revision: Option<u64>,
    forms: CompiledMap<T>,
}

impl<T> CompiledObjects<T> {
    /// `compile` receives the key and the record of an object.
    pub(crate) fn new(table: &'static str, compile: fn(&str, &Record) -> T) -> Self {
        CompiledObjects {
            table,
            compile,
            current: Mutex::new(FollowedForms { revision: None, forms: CompiledMap::default() }),
        }
    }

    /// Reads the changes since the last use, compiles what they changed, and returns all forms.
    pub(crate) fn current(&self, store: &Store) -> CompiledMap<T> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, unread) = store.unread(self.table, current.revision);
        match unread {
            Unread::Changes(events) if events.is_empty() => {}
            Unread::Changes(events) => {
                let mut forms = BTreeMap::clone(&current.forms);
                for event in events {
                    match &event.current {
                        Some(record) => forms.insert(event.key.clone(), self.form(&event.key, record)),
                        None => forms.remove(&event.key),
                    };
                }
                current.forms = Arc::new(forms);
            }
            Unread::Everything(objects) if objects.is_empty() && current.forms.is_empty() => {}
            Unread::Everything(objects) => {
                let forms = objects.iter().map(|(key, record)| (key.clone(), self.form(key, record)));
                current.forms = Arc::new(forms.collect());
            }
        }
        current.revision = Some(revision);
        Arc::clone(&current.forms)
    }

    fn form(&self, key: &str, record: &Record) -> Arc<T> {
        Arc::new((self.compile)(key, record))
    }
}

#[cfg(test)]
mod tests;
