//! [`FakeStore`]: notes what a reflector writes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::Object;
use crate::reflector::{ReflectorStore, StoreError};

type Answer = Box<dyn FnMut(&StoreCall) -> Result<(), StoreError> + Send>;
type Known = Box<dyn FnMut(&ObjectKey) -> Option<Object> + Send>;

/// A [`ReflectorStore`] that holds nothing: it notes what it is told, and answers what a test wants it to.
///
/// Cheap to clone; clones share everything. A test keeps one and gives one to the reflector. All calls are kept for as
/// long as the store lives, or until they are [taken](Self::take).
///
/// ```
/// use evenkeel_cache::reflector::{ReflectorStore, StoreError};
/// use evenkeel_cache::testing::{FakeStore, StoreCall};
/// use evenkeel_cache::ResourceVersion;
///
/// let store = FakeStore::new().answer(|call| match call {
///     StoreCall::Replace { .. } => Err(StoreError::new("full", None)),
///     _ => Ok(()),
/// });
/// assert!(store.clone().replace(vec![], ResourceVersion::new("1")).is_err());
/// assert!(matches!(&*store.calls(), [StoreCall::Replace { objects, .. }] if objects.is_empty()));
/// ```
#[derive(Clone, Default)]
pub struct FakeStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    calls: Mutex<Vec<StoreCall>>,
    answer: Mutex<Option<Answer>>,
    known: Mutex<Option<Known>>,
}

/// What a reflector told a [`FakeStore`].
#[derive(Clone, Debug)]
pub enum StoreCall {
    /// [`ReflectorStore::add`].
    Add(Object),
    /// [`ReflectorStore::update`].
    Update(Object),
    /// [`ReflectorStore::delete`].
    Delete(Object),
    /// [`ReflectorStore::replace`].
    Replace {
        /// The objects of the list.
        objects: Vec<Object>,
        /// Its version.
        version: ResourceVersion,
    },
    /// [`ReflectorStore::resync`].
    Resync(Instant),
    /// [`ReflectorStore::bookmark`].
    Bookmark(ResourceVersion),
    /// [`ReflectorStore::flush`].
    Flush,
}

impl FakeStore {
    /// A store that says yes to everything and knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same store, answering with what this says of each call. What a bookmark is answered is not heard.
    pub fn answer(self, answer: impl FnMut(&StoreCall) -> Result<(), StoreError> + Send + 'static) -> Self {
        *lock(&self.shared.answer) = Some(Box::new(answer));
        self
    }

    /// The same store, knowing what this says.
    pub fn knows(self, known: impl FnMut(&ObjectKey) -> Option<Object> + Send + 'static) -> Self {
        *lock(&self.shared.known) = Some(Box::new(known));
        self
    }

    /// What the store was told so far, oldest first.
    pub fn calls(&self) -> Vec<StoreCall> {
        lock(&self.shared.calls).clone()
    }

    /// What the store was told since this was asked last, oldest first.
    pub fn take(&self) -> Vec<StoreCall> {
        std::mem::take(&mut lock(&self.shared.calls))
    }

    fn call(&self, call: StoreCall) -> Result<(), StoreError> {
        lock(&self.shared.calls).push(call.clone());
        lock(&self.shared.answer).as_mut().map_or(Ok(()), |answer| answer(&call))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReflectorStore for FakeStore {
    fn add(&mut self, object: Object) -> Result<(), StoreError> {
        self.call(StoreCall::Add(object))
    }

    fn update(&mut self, object: Object) -> Result<(), StoreError> {
        self.call(StoreCall::Update(object))
    }

    fn delete(&mut self, object: Object) -> Result<(), StoreError> {
        self.call(StoreCall::Delete(object))
    }

    fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion) -> Result<(), StoreError> {
        self.call(StoreCall::Replace { objects, version })
    }

    fn resync(&mut self, now: Instant) -> Result<(), StoreError> {
        self.call(StoreCall::Resync(now))
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        let _ = self.call(StoreCall::Bookmark(version.clone()));
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.call(StoreCall::Flush)
    }

    fn known(&self, key: &ObjectKey) -> Option<Object> {
        lock(&self.shared.known).as_mut().and_then(|known| known(key))
    }
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeStore").field("calls", &lock(&self.shared.calls).len()).finish_non_exhaustive()
    }
}
