//! [`TtlStore`]: objects that expire.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Deleted;

type Policy<K> = Box<dyn Fn(&Obj<K>, Duration) -> bool + Send + Sync>;

/// Objects by key that expire after a time: client-go's `ExpirationCache`.
///
/// An expired object is removed when it is read, and occupies memory until then: there is no background task, so this is for
/// keys that recur. Each method is atomic: an object that is stored again is not removed as the expired one.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_cache::{Obj, ResourceInfo};
/// use evenkeel_cache::compat::TtlStore;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let recent = TtlStore::<Pod>::new(Duration::from_secs(30));
/// recent.put(Obj::from_json(&ResourceInfo::of::<Pod>().into(), r#"{"metadata": {"name": "a"}}"#)?);
/// assert!(recent.get("a").is_some());
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
pub struct TtlStore<K> {
    is_expired: Policy<K>,
    state: Mutex<TtlState<K>>,
}

struct TtlState<K> {
    objects: HashMap<ObjectKey, Stamped<K>>,
    version: ResourceVersion,
}

struct Stamped<K> {
    object: Obj<K>,
    since: Instant,
}

impl<K: 'static> TtlStore<K> {
    /// Returns an empty store with this time to live; zero for no expiration.
    pub fn new(ttl: Duration) -> Self {
        Self::with_policy(move |_, age| !ttl.is_zero() && age > ttl)
    }

    /// Returns an empty store with a policy: it receives the object and its age, and returns `true` if it has expired. It runs
    /// under the lock of the store.
    pub fn with_policy(is_expired: impl Fn(&Obj<K>, Duration) -> bool + Send + Sync + 'static) -> Self {
        let state = TtlState { objects: HashMap::new(), version: ResourceVersion::new("") };
        TtlStore { is_expired: Box::new(is_expired), state: Mutex::new(state) }
    }

    /// Stores an object and restarts its time. [`resource_version`](Self::resource_version) does not change.
    pub fn put(&self, object: Obj<K>) {
        let since = Instant::now();
        self.state().objects.insert(object.key().clone(), Stamped { object, since });
    }

    /// Removes an object.
    pub fn delete(&self, deleted: &Deleted<K>) {
        let mut state = self.state();
        state.objects.remove(deleted.key());
        if let Deleted::Observed(object) = deleted {
            state.version = object.version();
        }
    }

    /// Replaces all objects in one step.
    pub fn replace(&self, objects: impl IntoIterator<Item = Obj<K>>, version: ResourceVersion) {
        let since = Instant::now();
        let stamped = |object: Obj<K>| (object.key().clone(), Stamped { object, since });
        let objects = objects.into_iter().map(stamped).collect();
        *self.state() = TtlState { objects, version };
    }

    /// Sets the resource version of a bookmark.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.state().version = version.clone();
    }

    /// Returns the object with this key. Removes it if it has expired.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        let key = key.as_ref();
        let now = Instant::now();
        let mut state = self.state();
        let stamped = state.objects.get(key)?;
        if self.is_over(stamped, now) {
            state.objects.remove(key);
            return None;
        }
        Some(stamped.object.clone())
    }

    /// Returns the objects that have not expired, in no particular order. Removes the others.
    pub fn list(&self) -> Vec<Obj<K>> {
        let now = Instant::now();
        let mut state = self.state();
        state.objects.retain(|_, stamped| !self.is_over(stamped, now));
        state.objects.values().map(|stamped| stamped.object.clone()).collect()
    }

    /// Returns the keys of all objects, including expired ones that were not removed yet, in no particular order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state().objects.keys().cloned().collect()
    }

    /// Returns the resource version of the last [list](Self::replace), [delete](Self::delete) or
    /// [bookmark](Self::bookmark).
    pub fn resource_version(&self) -> ResourceVersion {
        self.state().version.clone()
    }

    fn is_over(&self, stamped: &Stamped<K>, now: Instant) -> bool {
        (self.is_expired)(&stamped.object, now.saturating_duration_since(stamped.since))
    }

    fn state(&self) -> MutexGuard<'_, TtlState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: 'static> fmt::Debug for TtlStore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlStore").field("objects", &self.state().objects.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
