//! [`Store`]: an [`Indexer`] and the right to write to it.

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

/// The objects of one kind, to be read and written: an [`Indexer`] and the right to write to it. Cheap to clone; clones
/// share the objects.
///
/// - Writers take turns. What they write is seen by every read that begins after they return.
/// - To change an object is to put another in its place.
/// - The store keeps room for as many objects as it ever held, about 100 bytes for each; objects themselves go when they
///   are replaced or removed, unless somebody still has them.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::{Index, Obj, ResourceInfo, Store};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let info = Arc::new(ResourceInfo::of::<Pod>());
/// let pod = r#"{"metadata": {"namespace": "ns", "name": "web-0", "resourceVersion": "7"}, "spec": {"nodeName": "n1"}}"#;
/// let pods: Store<Pod> = Store::new([Index::by_path("node", "spec.nodeName")]);
/// pods.put(Obj::from_json(&info, pod)?);
/// assert_eq!(pods.by_index("node", "n1")?[0].key().as_str(), "ns/web-0");
/// assert_eq!(pods.resource_version().as_str(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store<K> {
    indexer: Indexer<K>,
}

impl<K> Store<K> {
    /// An empty one with these indexes. Of indexes with the same name the last counts.
    pub fn new(indexes: impl IntoIterator<Item = Index<K>>) -> Self {
        let table = Table::new(indexes.into_iter().map(Index::cast).collect());
        Store { indexer: Indexer::over(Arc::new(table)) }
    }

    /// The same objects, to be read only.
    pub fn indexer(&self) -> Indexer<K> {
        self.indexer.clone()
    }

    /// Stores an object, whether its key is known or not; answers with what was there before. This is client-go's `Add`
    /// and its `Update`.
    pub fn put(&self, object: Obj<K>) -> Option<Obj<K>> {
        self.write(Delta::Updated(object.cast()))
    }

    /// Removes the object with this key, if there is one, and answers with it. The store's version stays.
    pub fn remove(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.delete(Deleted::Missed { key: key.clone(), last_known: None })
    }

    /// Removes an object that is gone, and answers with what was stored. If its deletion was seen, the store has reached
    /// the version of that.
    pub fn delete(&self, deleted: Deleted<K>) -> Option<Obj<K>> {
        self.write(Delta::Deleted(deleted.cast()))
    }

    /// Makes these all the objects there are, and this the version of the store. Of objects with the same key the last
    /// counts. Readers are not held up while it is prepared.
    pub fn replace(&self, objects: impl IntoIterator<Item = Obj<K>>, version: ResourceVersion) {
        let objects: Vec<_> = objects.into_iter().map(Obj::cast).collect();
        self.indexer.table.replace(objects, version, false);
    }

    /// Nothing has happened up to this version.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.indexer.table.bookmark(version);
    }

    /// Makes several writes at once, in order: readers see none of them or all. Answers with what was there before each.
    ///
    /// The function only says what to write. Nothing is written before it returns, or if it panics.
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
#[derive(Debug)]
pub struct Transaction<K> {
    deltas: Vec<Delta>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Transaction<K> {
    /// Stores an object, whether its key is known or not.
    pub fn put(&mut self, object: Obj<K>) {
        self.deltas.push(Delta::Updated(object.cast()));
    }

    /// Removes the object with this key, if there is one.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.delete(Deleted::Missed { key: key.clone(), last_known: None });
    }

    /// Removes an object that is gone.
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
