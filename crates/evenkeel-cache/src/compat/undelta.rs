//! [`UndeltaStore`]: passes on the whole list after each change.

use std::collections::HashMap;
use std::fmt;

use evenkeel_core::ObjectKey;

use crate::Object;
use crate::delta::Delta;
use crate::reflector::{DeltaSink, SinkError};

/// Passes all objects to a function after each change.
///
/// Each add, update, delete and list causes one call, with the objects in no particular order; resyncs, bookmarks and reads
/// cause none. The list is built for each call: this is for kinds with few objects.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use evenkeel_cache::delta::Delta;
/// use evenkeel_cache::parts::DeltaSink;
/// use evenkeel_cache::compat::UndeltaStore;
/// use evenkeel_cache::{Obj, ResourceInfo};
///
/// let counts = Arc::new(Mutex::new(Vec::new()));
/// let mut store = {
///     let counts = Arc::clone(&counts);
///     UndeltaStore::new(move |objects| counts.lock().unwrap().push(objects.len()))
/// };
/// let nodes = Arc::new(ResourceInfo::new("", "v1", "Node", "nodes", false));
/// store.push(Delta::Added(Obj::from_json(&nodes, r#"{"metadata": {"name": "a"}}"#)?))?;
/// store.push(Delta::Added(Obj::from_json(&nodes, r#"{"metadata": {"name": "b"}}"#)?))?;
/// assert_eq!(*counts.lock().unwrap(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndeltaStore {
    objects: HashMap<ObjectKey, Object>,
    push: Box<dyn FnMut(Vec<Object>) + Send>,
}

impl UndeltaStore {
    /// Returns an empty store that passes its objects to this function.
    pub fn new(push: impl FnMut(Vec<Object>) + Send + 'static) -> Self {
        UndeltaStore { objects: HashMap::new(), push: Box::new(push) }
    }

    /// Returns all objects, in no particular order.
    pub fn list(&self) -> Vec<Object> {
        self.objects.values().cloned().collect()
    }

    /// Returns the object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Object> {
        self.objects.get(key.as_ref())
    }

    fn send(&mut self) {
        let all = self.list();
        (self.push)(all);
    }
}

impl DeltaSink for UndeltaStore {
    fn push(&mut self, delta: Delta) -> Result<(), SinkError> {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                self.objects.insert(object.key().clone(), object);
            }
            Delta::Deleted(deleted) => {
                self.objects.remove(deleted.key());
            }
            Delta::ReplacedAll { objects, .. } => {
                self.objects = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
            }
            Delta::Sync(_) | Delta::SyncAll | Delta::Bookmark(_) => return Ok(()),
        }
        self.send();
        Ok(())
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        self.objects.get(key).cloned()
    }
}

impl fmt::Debug for UndeltaStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeltaStore").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
