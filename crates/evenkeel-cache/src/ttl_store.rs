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
/// use evenkeel_cache::ttl_store::TtlStore;
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
mod tests {
    use evenkeel_core::ResourceInfo;
    use k8s_openapi::api::core::v1::Pod;
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TTL: Duration = Duration::from_secs(10);

    fn pod(name: &str, version: &str) -> Obj<Pod> {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Obj::from_json(&ResourceInfo::of::<Pod>().into(), json).unwrap()
    }

    fn names(store: &TtlStore<Pod>) -> Vec<String> {
        let mut names: Vec<String> = store.list().iter().map(|pod| pod.key().to_string()).collect();
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn exp_001_time_begins_when_an_object_is_put_in() {
        let store = TtlStore::new(TTL);
        store.put(pod("a", "1"));
        store.put(pod("b", "1"));
        advance(6 * SECOND).await;
        store.put(pod("a", "2"));
        advance(6 * SECOND).await;
        assert_eq!(names(&store), ["a"], "it began anew");
        store.replace([pod("c", "3"), pod("d", "3")], ResourceVersion::new("4"));
        assert_eq!(names(&store), ["c", "d"]);
        advance(TTL).await;
        assert_eq!(names(&store), ["c", "d"]);
        advance(SECOND).await;
        assert!(names(&store).is_empty(), "all at the same time");
    }

    #[tokio::test(start_paused = true)]
    async fn exp_002_what_is_over_is_forgotten_when_it_is_asked_for() {
        let store = TtlStore::new(TTL);
        store.put(pod("a", "1"));
        store.put(pod("b", "1"));
        advance(11 * SECOND).await;
        assert_eq!(store.keys().len(), 2, "keys are not looked at");
        assert!(store.get("a").is_none());
        assert_eq!(store.keys(), [ObjectKey::cluster("b")]);
        assert!(store.list().is_empty());
        assert!(store.keys().is_empty());
        assert!(store.get("a").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn exp_003_time_is_over_when_it_is_more_than_there_is() {
        let store = TtlStore::new(TTL);
        let forever = TtlStore::new(Duration::ZERO);
        store.put(pod("a", "1"));
        forever.put(pod("a", "1"));
        advance(TTL).await;
        assert!(store.get("a").is_some(), "just in time");
        advance(Duration::from_millis(1)).await;
        assert!(store.get("a").is_none());
        advance(10_000 * TTL).await;
        assert!(forever.get("a").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn exp_004_an_object_that_is_put_in_again_stays() {
        let store = TtlStore::new(TTL);
        store.put(pod("a", "1"));
        advance(11 * SECOND).await;
        store.put(pod("a", "2"));
        assert_eq!(store.get("a").unwrap().resource_version(), "2");
        assert_eq!(names(&store), ["a"]);
    }

    #[tokio::test]
    async fn exp_005_the_version_moves_with_deletions_lists_and_bookmarks() {
        let store = TtlStore::new(TTL);
        store.put(pod("a", "5"));
        assert_eq!(store.resource_version().as_str(), "");
        store.delete(&Deleted::Observed(pod("a", "6")));
        assert_eq!((store.resource_version().as_str(), store.keys().len()), ("6", 0));
        store.replace([pod("b", "3")], ResourceVersion::new("7"));
        assert_eq!(store.resource_version().as_str(), "7");
        store.bookmark(&ResourceVersion::new("8"));
        assert_eq!(store.resource_version().as_str(), "8");
        store.delete(&Deleted::Missed { key: ObjectKey::cluster("b"), last_known: None });
        assert_eq!((store.resource_version().as_str(), store.keys().len()), ("8", 0));
    }

    #[tokio::test]
    async fn a_policy_can_be_anything() {
        let store = TtlStore::<Pod>::with_policy(|pod, _| pod.key().name() != "keep");
        store.put(pod("keep", "1"));
        store.put(pod("drop", "1"));
        assert_eq!(names(&store), ["keep"]);
    }
}
