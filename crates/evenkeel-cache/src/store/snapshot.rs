//! [`Snapshot`]: the store at one moment.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceVersion};

use super::index::IndexError;
use super::state::StoreState;
use crate::namespaces::Scope;
use crate::shard_scope::Places;

/// The objects of an [`Indexer`](super::Indexer) at one moment.
///
/// - Taking one costs a reference count, whatever the number of objects.
/// - All reads see the same state, with complete transactions. Later writes are not visible.
/// - It returns references, without reference counting. Clone objects that must outlive it.
/// - It keeps its objects in memory, also those that were removed from the store since, and each later write copies the pages that
///   it changes. Hold a snapshot only while it is read.
///
/// ```
/// use evenkeel_cache::{Index, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods: Store<Pod> = Store::new([Index::by_path("node", "spec.nodeName")?]);
/// let snapshot = pods.snapshot();
/// let there = snapshot.by_index("node", "node-1")?;
/// println!("{} of {} pods, as of {}", there.len(), snapshot.len(), snapshot.resource_version());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot<K> {
    state: Arc<StoreState>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Snapshot<K> {
    pub(super) fn of(state: Arc<StoreState>) -> Self {
        Snapshot { state, kind: PhantomData }
    }

    /// Returns the object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<&Obj<K>> {
        self.state.get(key.as_ref()).map(Obj::as_kind)
    }

    /// Returns the object whose key has these bytes.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Obj<K>> {
        self.state.get(key).map(Obj::as_kind)
    }

    /// Returns all objects, in no particular order, but in the same one each time.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Obj<K>> + use<'_, K> {
        Counted { left: self.len(), objects: self.state.iter().map(Obj::as_kind) }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.state.totals.objects
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects with a value in an index, in no particular order.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<impl ExactSizeIterator<Item = &Obj<K>> + use<'_, K>, IndexError> {
        let slots = self.state.slots_by_index(name, value).ok_or_else(|| IndexError::Unknown { name: name.into() })?;
        let objects = slots.iter().filter_map(|slot| self.state.object(*slot)).map(Obj::as_kind);
        Ok(Counted { left: slots.len(), objects })
    }

    /// Returns the values of an index, in no particular order; none if there is no such index.
    pub fn index_values(&self, name: &str) -> impl Iterator<Item = &str> + use<'_, K> {
        self.state.index(name).into_iter().flat_map(|index| index.texts())
    }

    /// Returns the number of writes to the store so far.
    pub(crate) fn commits(&self) -> u64 {
        self.state.totals.commits
    }

    /// Returns the objects of a scope.
    pub(crate) fn in_scope<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Obj<K>> + Send {
        self.state.in_scope(scope).map(|(_, object)| object.as_kind())
    }

    /// Returns the objects of some places.
    pub(crate) fn in_places<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = &'a Obj<K>> + Send {
        self.state.in_places(places).map(|(_, object)| object.as_kind())
    }

    /// Returns the version of a scope; empty before its first list.
    pub(crate) fn scope_version(&self, scope: &Scope) -> ResourceVersion {
        let version = self.state.totals.scopes.as_ref().and_then(|scopes| scopes.version_of(scope.namespace()));
        version.cloned().unwrap_or_else(|| ResourceVersion::new(""))
    }

    /// Returns the resource version of the store.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.state.totals.version
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.state))
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("len", &self.len())
            .field("resource_version", self.resource_version())
            .finish_non_exhaustive()
    }
}

/// An iterator of known length.
struct Counted<I> {
    left: usize,
    objects: I,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let object = self.objects.next()?;
        self.left -= 1;
        Some(object)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    fn fold<B, F: FnMut(B, I::Item) -> B>(self, first: B, each: F) -> B {
        // The inner iterator is fastest over whole pages.
        self.objects.fold(first, each)
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}
