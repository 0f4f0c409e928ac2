//! [`MutationCache`]: a program's own writes on top of an indexer.

mod overlay;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use self::overlay::{Local, Overlay};
use crate::store::{IndexError, Indexer};
use crate::{Deleted, Event, Handler, Object};

/// Default number of kept writes.
const CAPACITY: usize = 100;
/// Default time that writes are kept.
const TTL: Duration = Duration::from_secs(5 * 60);

/// An [`Indexer`] with a program's own writes on top, so that a controller reads what it has just written.
///
/// Pass every write to [`mutation`](Self::mutation), add [`handler`](Self::handler) to the informer, and read from this
/// instead of from the indexer. Clones share everything.
///
/// - A read returns the newer one of the written and the stored object, by resource version. If they are equal or not
///   comparable, it returns the stored one and drops the written one.
/// - A created object that is not stored yet is returned only [if enabled](Self::including_adds).
/// - A late [`mutation`](Self::mutation) of a deleted object is ignored.
/// - At most 100 writes are kept, the most recently used ones, for five minutes each: this bridges the time until the watch
///   delivers the write. [`Indexer::at_least`] waits for the watch instead.
///
/// ```
/// use evenkeel_cache::compat::MutationCache;
/// use evenkeel_cache::{Obj, ResourceInfo, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let stored = Store::<Pod>::new([]);
/// let pods = MutationCache::new(stored.indexer()).including_adds();
/// let json = r#"{"metadata": {"name": "a", "resourceVersion": "7"}}"#;
/// pods.mutation(Obj::from_json(&ResourceInfo::of::<Pod>().into(), json)?);
/// assert_eq!(pods.get("a").unwrap().resource_version(), "7");
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
pub struct MutationCache<K> {
    stored: Indexer<K>,
    overlay: Arc<Mutex<Overlay>>,
    include_adds: bool,
}

impl<K: 'static> MutationCache<K> {
    /// Returns a cache on top of this indexer, without writes.
    pub fn new(stored: Indexer<K>) -> Self {
        MutationCache { stored, overlay: Arc::new(Mutex::new(Overlay::new(CAPACITY, TTL))), include_adds: false }
    }

    /// Returns the same cache; reads through this handle and its clones include written objects that are not stored.
    pub fn including_adds(mut self) -> Self {
        self.include_adds = true;
        self
    }

    /// Returns the same cache with room for this many writes; 0 for the default of 100.
    pub fn capacity(self, writes: usize) -> Self {
        self.overlay().set_capacity(if writes == 0 { CAPACITY } else { writes });
        self
    }

    /// Returns the same cache that keeps writes for this long; zero for the default of five minutes.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.overlay().set_ttl(if ttl.is_zero() { TTL } else { ttl });
        self
    }

    /// Returns the newest known state of the object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        let key = key.as_ref();
        // The overlay is locked first: writes that it dropped are in the store.
        let mut overlay = self.overlay();
        let stored = self.stored.get(key).map(Obj::cast);
        overlay.newest(key, stored, self.include_adds, Instant::now()).map(Obj::cast)
    }

    /// Returns the objects whose newest known state has this value in an index, in no particular order.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Obj<K>>, IndexError> {
        // Written objects may differ from the stored ones in the index. They are read first: writes that are dropped later
        // are in the store. The index is read without the lock.
        let written = self.newest_written();
        let mut found = self.stored.by_index(name, value)?;
        found.retain(|object| !written.contains_key(object.key()));
        for object in written.into_values().flatten() {
            if self.stored.is_found_under(name, value, &object)? {
                found.push(object);
            }
        }
        Ok(found)
    }

    /// Returns the newest known state of all written objects, or `None` for those that are not to be read.
    fn newest_written(&self) -> HashMap<ObjectKey, Option<Obj<K>>> {
        let now = Instant::now();
        let mut overlay = self.overlay();
        let mut written = HashMap::new();
        for key in overlay.written(now) {
            let stored = self.stored.get(&key).map(Obj::cast);
            let newest = overlay.newest(key.as_str(), stored, self.include_adds, now).map(Obj::cast);
            written.insert(key, newest);
        }
        written
    }

    /// Records a write with the object that the server returned. States older than the recorded one, and states of deleted
    /// objects, are ignored.
    pub fn mutation(&self, object: Obj<K>) {
        self.overlay().mutation(object.cast(), Instant::now());
    }

    /// Records that the informer has stored this object.
    pub fn on_add_or_update(&self, object: &Obj<K>) {
        self.overlay().on_add_or_update(object.as_kind(), Instant::now());
    }

    /// Records that the informer has deleted this object.
    pub fn on_delete(&self, deleted: &Deleted<K>) {
        self.overlay().on_delete(deleted.key(), deleted.object().map(Obj::as_kind), Instant::now());
    }

    /// Returns a handler for the informer of the indexer.
    pub fn handler(&self) -> impl Handler<K> + use<K> {
        let cache = self.clone();
        move |event: Event<K>| match &event {
            Event::Add { object, .. } | Event::Update { new: object, .. } => cache.on_add_or_update(object),
            Event::Delete(deleted) => cache.on_delete(deleted),
        }
    }

    fn overlay(&self) -> MutexGuard<'_, Overlay> {
        self.overlay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overlay {
    /// Returns the newer one of the stored and the written object.
    fn newest(&mut self, key: &str, stored: Option<Object>, include_adds: bool, now: Instant) -> Option<Object> {
        let Some(stored) = stored else {
            return self.get(key, now).filter(|_| include_adds).and_then(Local::object).cloned();
        };
        let Some(Local::Written(written)) = self.get(key, now) else {
            return Some(stored);
        };
        if written.version().is_newer_than(&stored.version()) {
            return Some(written.clone());
        }
        self.remove(key);
        Some(stored)
    }

    fn mutation(&mut self, object: Object, now: Instant) {
        let is_too_late = match self.get(object.key().as_str(), now) {
            Some(Local::Written(written)) => written.version().is_newer_than(&object.version()),
            Some(Local::Gone { uid, version }) => is_same_uid(uid, object.uid()) || !is_newer(&object, version),
            None => false,
        };
        if !is_too_late {
            self.put(object.key().clone(), Local::Written(object), now);
        }
    }

    fn on_add_or_update(&mut self, object: &Object, now: Instant) {
        let key = object.key().as_str();
        let is_overtaken = match self.get(key, now) {
            Some(Local::Written(written)) => !written.version().is_newer_than(&object.version()),
            Some(Local::Gone { version, .. }) => !version.is_newer_than(&object.version()),
            None => false,
        };
        if is_overtaken {
            self.remove(key);
        }
    }

    fn on_delete(&mut self, key: &ObjectKey, last: Option<&Object>, now: Instant) {
        let Some(last) = last else {
            // A late write cannot be distinguished from a new object.
            self.remove(key.as_str());
            return;
        };
        let is_reborn = match self.get(key.as_str(), now) {
            Some(Local::Written(written)) => {
                written.version().is_newer_than(&last.version()) && !is_same_uid(written.uid(), last.uid())
            }
            Some(Local::Gone { .. }) | None => false,
        };
        if !is_reborn {
            let gone = Local::Gone { uid: last.uid().into(), version: last.version() };
            self.put(key.clone(), gone, now);
        }
    }
}

/// Returns `true` if the object is newer than a deletion, or not comparable.
fn is_newer(object: &Object, version: &ResourceVersion) -> bool {
    let own = object.version();
    own != *version && own.compare(version).is_none_or(|order| order.is_gt())
}

/// Objects without a uid never match.
fn is_same_uid(one: &str, other: &str) -> bool {
    !one.is_empty() && one == other
}

impl<K> Clone for MutationCache<K> {
    fn clone(&self) -> Self {
        MutationCache {
            stored: self.stored.clone(),
            overlay: Arc::clone(&self.overlay),
            include_adds: self.include_adds,
        }
    }
}

impl<K> fmt::Debug for MutationCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutationCache").field("stored", &self.stored).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
