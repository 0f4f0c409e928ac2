//! [`Store`]: an [`Indexer`] with write access, for programs without an informer. Informers write the [`Table`] themselves.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};

use super::index::Index;
use super::indexer::Indexer;
use super::table::Table;
use crate::Deleted;
use crate::delta::Delta;

/// The objects of one kind: an [`Indexer`] with write access. Cheap to clone; clones share the objects.
///
/// - Writes are serialized. Every read that starts after a write returned sees it.
/// - Objects are immutable: an update replaces the object.
/// - Objects are dropped when they are replaced or removed, unless a caller still holds them. Tables shrink when less than a
///   quarter of them is in use.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::{Index, Obj, ResourceInfo, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let info = Arc::new(ResourceInfo::of::<Pod>());
/// let pod = r#"{"metadata": {"namespace": "ns", "name": "web-0", "resourceVersion": "7"}, "spec": {"nodeName": "n1"}}"#;
/// let pods: Store<Pod> = Store::new([Index::by_path("node", "spec.nodeName")?]);
/// pods.put(Obj::from_json(&info, pod)?);
/// assert_eq!(pods.by_index("node", "n1")?[0].key().as_str(), "ns/web-0");
/// assert_eq!(pods.resource_version().as_str(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store<K> {
    indexer: Indexer<K>,
}

impl<K> Store<K> {
    /// Returns an empty store with these indexes. Of indexes with the same name the last is used.
    pub fn new(indexes: impl IntoIterator<Item = Index<K>>) -> Self {
        let table = Table::new(indexes.into_iter().map(Index::cast).collect());
        Store { indexer: Indexer::over(Arc::new(table)) }
    }

    /// Returns read access to the objects.
    pub fn indexer(&self) -> Indexer<K> {
        self.indexer.clone()
    }

    /// Adds or replaces an object, and returns the previous one. client-go's `Add` and `Update`.
    pub fn put(&self, object: Obj<K>) -> Option<Obj<K>> {
        self.indexer.table.put(object.cast()).map(Obj::cast)
    }

    /// Removes and returns the object with this key. The version of the store stays.
    pub fn remove(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.write(Delta::Deleted(Deleted::Missed { key: key.clone(), last_known: None }))
    }

    /// Removes a deleted object, and returns the stored one. If the deletion was observed, the store reaches its version.
    #[cfg(feature = "compat")]
    pub fn delete(&self, deleted: Deleted<K>) -> Option<Obj<K>> {
        self.write(Delta::Deleted(deleted.cast()))
    }

    /// Replaces all objects, and sets the version of the store. Of objects with the same key the last is stored. Readers do not wait
    /// while a large replacement is prepared.
    pub fn replace(&self, objects: impl IntoIterator<Item = Obj<K>>, version: ResourceVersion) {
        let objects: Vec<_> = objects.into_iter().map(Obj::cast).collect();
        self.indexer.table.replace(objects, version, false);
    }

    /// Advances the version: nothing changed up to it.
    #[cfg(feature = "compat")]
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.indexer.table.bookmark(version);
    }

    /// Makes several writes in one step, in order: readers see all of them or none. Returns the previous object of each.
    ///
    /// The function collects the writes. Nothing is written before it returns, or if it panics.
    ///
    /// ```
    /// # use evenkeel_cache::{Obj, ObjectKey, Store};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: Store<Pod>, new: Obj<Pod>) {
    /// let before = pods.transaction(|tx| {
    ///     tx.put(new);
    ///     tx.remove(&ObjectKey::namespaced("ns", "old"));
    /// });
    /// assert_eq!(before.len(), 2);
    /// # }
    /// ```
    #[cfg(feature = "compat")]
    pub fn transaction(&self, write: impl FnOnce(&mut Transaction<K>)) -> Vec<Option<Obj<K>>> {
        let mut transaction = Transaction { deltas: Vec::new(), kind: PhantomData };
        write(&mut transaction);
        self.indexer.table.commit(&transaction.deltas).0.into_iter().map(|object| object.map(Obj::cast)).collect()
    }

    fn write(&self, delta: Delta) -> Option<Obj<K>> {
        self.indexer.table.commit(&[delta]).0.pop().flatten().map(Obj::cast)
    }
}

/// The writes of one [`Store::transaction`].
#[cfg(feature = "compat")]
#[derive(Debug)]
pub struct Transaction<K> {
    deltas: Vec<Delta>,
    kind: PhantomData<fn() -> K>,
}

#[cfg(feature = "compat")]
impl<K> Transaction<K> {
    /// Adds or replaces an object.
    pub fn put(&mut self, object: Obj<K>) {
        self.deltas.push(Delta::Updated(object.cast()));
    }

    /// Removes the object with this key.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.delete(Deleted::Missed { key: key.clone(), last_known: None });
    }

    /// Removes a deleted object.
    pub fn delete(&mut self, deleted: Deleted<K>) {
        self.deltas.push(Delta::Deleted(deleted.cast()));
    }
}

impl<K> Deref for Store<K> {
    type Target = Indexer<K>;

    fn deref(&self) -> &Indexer<K> {
        &self.indexer
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Store { indexer: self.indexer.clone() }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.indexer).finish()
    }
}
