//! [`TtlStore`]: objects that are forgotten after a while.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Deleted;

type Policy<K> = Box<dyn Fn(&Obj<K>, Duration) -> bool + Send + Sync>;

/// Objects by key that are forgotten a while after they were put in: client-go's `ExpirationCache`.
///
/// An object is gone when it is asked for after its time, and takes up memory until then: nothing looks after them, so this
/// is for keys that come back, not for ones that do not. Each method is one step that nothing comes between: an object
/// that is put in again after its time is not taken for the one whose time was over.
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
    state: Mutex<State<K>>,
}

struct State<K> {
    objects: HashMap<ObjectKey, Stamped<K>>,
    version: ResourceVersion,
}

struct Stamped<K> {
    object: Obj<K>,
    since: Instant,
}

impl<K: 'static> TtlStore<K> {
    /// An empty store, in which objects stay for this long and no longer; for ever if it is zero.
    pub fn new(ttl: Duration) -> Self {
        Self::with_policy(move |_, age| !ttl.is_zero() && age > ttl)
    }

    /// An empty store, in which an object's time is over when this says so, of the object and of how long it has been there.
    /// It is called while the store is locked.
    pub fn with_policy(is_expired: impl Fn(&Obj<K>, Duration) -> bool + Send + Sync + 'static) -> Self {
        let state = State { objects: HashMap::new(), version: ResourceVersion::new("") };
        TtlStore { is_expired: Box::new(is_expired), state: Mutex::new(state) }
    }

    /// Puts an object in, or in place of what was there; its time begins anew. Leaves
    /// [`resource_version`](Self::resource_version) alone.
    pub fn put(&self, object: Obj<K>) {
        let since = Instant::now();
        self.state().objects.insert(object.key().clone(), Stamped { object, since });
    }

    /// Takes an object out.
    pub fn delete(&self, deleted: &Deleted<K>) {
        let mut state = self.state();
        state.objects.remove(deleted.key());
        if let Deleted::Observed(object) = deleted {
            state.version = object.version();
        }
    }

    /// Puts these objects in, all at the same time, and takes out all others.
    pub fn replace(&self, objects: impl IntoIterator<Item = Obj<K>>, version: ResourceVersion) {
        let since = Instant::now();
        let stamped = |object: Obj<K>| (object.key().clone(), Stamped { object, since });
        let objects = objects.into_iter().map(stamped).collect();
        *self.state() = State { objects, version };
    }

    /// Nothing has happened up to this version.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.state().version = version.clone();
    }

    /// The object with this key, unless its time is over: then it is forgotten.
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

    /// The objects whose time is not over, in no particular order. The others are forgotten.
    pub fn list(&self) -> Vec<Obj<K>> {
        let now = Instant::now();
        let mut state = self.state();
        state.objects.retain(|_, stamped| !self.is_over(stamped, now));
        state.objects.values().map(|stamped| stamped.object.clone()).collect()
    }

    /// The keys of all objects that have not been forgotten yet, whether their time is over or not, in no particular order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state().objects.keys().cloned().collect()
    }

    /// The version that the store was last [replaced](Self::replace) with, or that a [deletion](Self::delete) or a
    /// [bookmark](Self::bookmark) has moved it to.
    pub fn resource_version(&self) -> ResourceVersion {
        self.state().version.clone()
    }

    fn is_over(&self, stamped: &Stamped<K>, now: Instant) -> bool {
        (self.is_expired)(&stamped.object, now.saturating_duration_since(stamped.since))
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
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
