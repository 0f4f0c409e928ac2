//! [`MutationCache`]: one's own writes, before they come back.

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

/// How many writes are remembered unless something else is asked for.
const CAPACITY: usize = 100;
/// For how long writes are remembered unless something else is asked for.
const TTL: Duration = Duration::from_secs(5 * 60);

/// An [`Indexer`] with one's own writes on top of it, so that a controller that has just written an object reads what it
/// has written, and not what the watch has told so far.
///
/// Tell it of every write with [`mutation`](Self::mutation), and of what the informer hears with
/// [`handler`](Self::handler); then read from it instead of from the indexer. Cheap to clone; clones share everything.
///
/// - Of the written and the stored object the newer one is read, by resource version. If they cannot be compared, or are
///   the same, that is the stored one, and what was written is forgotten.
/// - An object that was created and is not stored yet is read only if [asked for](Self::including_adds).
/// - What was deleted does not come back by a late [`mutation`](Self::mutation) of the same object.
/// - At most 100 writes are remembered, those that were read or written last, for five minutes each: this is a bridge
///   until the watch has caught up, and not a store. To wait for the watch instead, ask the store for a version.
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
    /// One on top of this indexer that remembers nothing yet.
    pub fn new(stored: Indexer<K>) -> Self {
        MutationCache { stored, overlay: Arc::new(Mutex::new(Overlay::new(CAPACITY, TTL))), include_adds: false }
    }

    /// The same cache, reading objects as well that were written and are not stored. This is said of one handle and the
    /// clones that are made of it.
    pub fn including_adds(mut self) -> Self {
        self.include_adds = true;
        self
    }

    /// The same cache, remembering at most this many writes; 0 for what it is anyhow, 100.
    pub fn capacity(self, writes: usize) -> Self {
        self.overlay().set_capacity(if writes == 0 { CAPACITY } else { writes });
        self
    }

    /// The same cache, remembering each write for this long, from now on; zero for what it is anyhow, five minutes.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.overlay().set_ttl(if ttl.is_zero() { TTL } else { ttl });
        self
    }

    /// The newest that is known of the object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        let key = key.as_ref();
        // The overlay is locked first: what it has forgotten by then is in the store.
        let mut overlay = self.overlay();
        let stored = self.stored.get(key).map(Obj::cast);
        overlay.newest(key, stored, self.include_adds, Instant::now()).map(Obj::cast)
    }

    /// The newest that is known of all objects that an index finds under a value, by their newest state, in no particular
    /// order.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Obj<K>>, IndexError> {
        // What was written may be found by it alone, or may be found no longer. It is looked up first: what is forgotten
        // after that is in the store. The index is asked without the lock.
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

    /// The newest that is known of all objects that were written, or `None` for those that are not to be read.
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

    /// This was written, and is what the server answered. An older state of an object than what is remembered is passed
    /// over, and so is any state of one that is known to be gone.
    pub fn mutation(&self, object: Obj<K>) {
        self.overlay().mutation(object.cast(), Instant::now());
    }

    /// The informer has this object now.
    pub fn on_add_or_update(&self, object: &Obj<K>) {
        self.overlay().on_add_or_update(object.as_kind(), Instant::now());
    }

    /// The informer has this object no longer.
    pub fn on_delete(&self, deleted: &Deleted<K>) {
        self.overlay().on_delete(deleted.key(), deleted.object().map(Obj::as_kind), Instant::now());
    }

    /// A handler for the informer whose indexer this is on top of.
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
    /// The newer one of what is stored and what was written.
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
            // Nothing is known of it by which a late write could be told from a new object.
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

/// Whether the object is newer than the version of a deletion, or cannot be compared with it.
fn is_newer(object: &Object, version: &ResourceVersion) -> bool {
    let own = object.version();
    own != *version && own.compare(version).is_none_or(|order| order.is_gt())
}

/// An object without a uid is nobody's.
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
