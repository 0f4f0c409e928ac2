//! [`UndeltaStore`]: the whole list after each change.

use std::collections::HashMap;
use std::fmt;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Object;
use crate::reflector::{ReflectorStore, StoreError};

/// Hands out all objects after each change: for those who do not care what has changed.
///
/// Each addition, update, deletion and list is followed by one call, with the objects in no particular order; resyncs,
/// bookmarks and reads are not. The objects are not copied, but the list of them is made anew each time: this is for kinds
/// of which there are few.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use evenkeel_cache::reflector::ReflectorStore;
/// use evenkeel_cache::compat::UndeltaStore;
/// use evenkeel_cache::{Obj, ResourceInfo};
///
/// let counts = Arc::new(Mutex::new(Vec::new()));
/// let mut store = {
///     let counts = Arc::clone(&counts);
///     UndeltaStore::new(move |objects| counts.lock().unwrap().push(objects.len()))
/// };
/// let nodes = Arc::new(ResourceInfo::new("", "v1", "Node", "nodes", false));
/// store.add(Obj::from_json(&nodes, r#"{"metadata": {"name": "a"}}"#)?)?;
/// store.add(Obj::from_json(&nodes, r#"{"metadata": {"name": "b"}}"#)?)?;
/// assert_eq!(*counts.lock().unwrap(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UndeltaStore {
    objects: HashMap<ObjectKey, Object>,
    push: Box<dyn FnMut(Vec<Object>) + Send>,
}

impl UndeltaStore {
    /// An empty store that hands its objects to this.
    pub fn new(push: impl FnMut(Vec<Object>) + Send + 'static) -> Self {
        UndeltaStore { objects: HashMap::new(), push: Box::new(push) }
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Object> {
        self.objects.values().cloned().collect()
    }

    /// The object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Object> {
        self.objects.get(key.as_ref())
    }

    fn push(&mut self) {
        let all = self.list();
        (self.push)(all);
    }
}

impl ReflectorStore for UndeltaStore {
    fn add(&mut self, object: Object) -> Result<(), StoreError> {
        self.update(object)
    }

    fn update(&mut self, object: Object) -> Result<(), StoreError> {
        self.objects.insert(object.key().clone(), object);
        self.push();
        Ok(())
    }

    fn delete(&mut self, object: Object) -> Result<(), StoreError> {
        self.objects.remove(object.key());
        self.push();
        Ok(())
    }

    fn replace(&mut self, objects: Vec<Object>, _: ResourceVersion) -> Result<(), StoreError> {
        self.objects = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        self.push();
        Ok(())
    }

    fn resync(&mut self, _: Instant) -> Result<(), StoreError> {
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
