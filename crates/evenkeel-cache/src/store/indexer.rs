//! [`Indexer`]: the objects of one kind, by key and by index.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};

use super::index::{Index, IndexError};
use super::snapshot::Snapshot;
use super::table::{Table, Write};
use super::values::Values;
use super::waiters::StoreStopped;
use crate::Deleted;

/// The objects of one kind, by key and by any number of indexes. Cheap to clone; clones share the objects.
///
/// - Objects are told apart by namespace and name alone, and never change: to change one is to put another.
/// - Reads take no lock and never wait, whatever is being written. Each sees one state, with all of a transaction or
///   nothing of it; [`snapshot`](Self::snapshot) answers several questions from one state, and by reference.
/// - Writers take turns. What they write is seen by every read that begins after they return.
/// - An informer's indexer is written by the informer. Whatever else is written to it lasts until the informer hears of
///   the object.
/// - The store keeps room for as many objects as it ever held, about 100 bytes for each; objects themselves go when they
///   are replaced or removed, at the latest with the next write, unless somebody still has them.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cache::{Index, Indexer, Obj, ResourceInfo};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let info = Arc::new(ResourceInfo::of::<Pod>());
/// let pod = r#"{"metadata": {"namespace": "ns", "name": "web-0", "resourceVersion": "7"}, "spec": {"nodeName": "n1"}}"#;
/// let pods: Indexer<Pod> = Indexer::new([Index::by_path("node", "spec.nodeName")]);
/// pods.put(Obj::from_json(&info, pod)?);
/// assert_eq!(pods.by_index("node", "n1")?[0].key().as_str(), "ns/web-0");
/// assert_eq!(pods.resource_version().as_str(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Indexer<K> {
    table: Arc<Table>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Indexer<K> {
    /// An empty one with these indexes. Of indexes with the same name the last counts.
    pub fn new(indexes: impl IntoIterator<Item = Index<K>>) -> Self {
        Self::over(Arc::new(Table::new(indexes.into_iter().map(Index::cast).collect())))
    }

    pub(crate) fn over(table: Arc<Table>) -> Self {
        Indexer { table, kind: PhantomData }
    }

    /// The store as it is now, for several questions or a look at many objects.
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::of(self.table.snapshot())
    }

    /// The object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        self.table.get(key.as_ref()).map(Obj::cast)
    }

    /// Whether there is an object with this key.
    pub fn contains(&self, key: impl AsRef<str>) -> bool {
        self.table.contains(key.as_ref())
    }

    /// All objects, in no particular order. Counts a reference for each; [`snapshot`](Self::snapshot) does not.
    pub fn list(&self) -> Vec<Obj<K>> {
        self.table.list().into_iter().map(Obj::cast).collect()
    }

    /// The keys of all objects, in no particular order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.table.keys()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the objects hold: the sum of their payloads.
    pub fn payload_bytes(&self) -> usize {
        self.table.payload_bytes()
    }

    /// The version that the store has reached: the newest that was written, or that of the last list or bookmark.
    ///
    /// Versions that can be compared never take it back, except for that of a list. Of others the last one counts.
    pub fn resource_version(&self) -> ResourceVersion {
        self.table.version()
    }

    /// Waits until the store has reached this version: until it shows what a write that was answered with this version
    /// has done.
    ///
    /// The empty version and `0` stand for any, and are not waited for. A version that cannot be compared is reached when
    /// an object, a bookmark or a list brings exactly this one from now on, or if it is the present one; if it has been
    /// passed already, this waits forever. There is no limit of time; put one around it. Dropping the future is enough to
    /// end the wait. It fails when the informer that fills the store has stopped.
    pub async fn at_least(&self, version: &ResourceVersion) -> Result<(), StoreStopped> {
        self.table.at_least(version).await
    }
}

/// Indexes.
impl<K> Indexer<K> {
    /// The objects that an index finds under a value, in no particular order; none if no object has it.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Obj<K>>, IndexError> {
        let found = self.table.by_index(name, value).ok_or_else(|| unknown(name))?;
        Ok(found.into_iter().map(Obj::cast).collect())
    }

    /// The keys of the objects that an index finds under a value, ascending.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let mut keys: Vec<ObjectKey> =
            self.snapshot().by_index(name, value)?.map(|object| object.key().clone()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The objects that have at least one value of an index in common with this one, each once. It need not be stored
    /// itself.
    pub fn index(&self, name: &str, object: &Obj<K>) -> Result<Vec<Obj<K>>, IndexError> {
        let state = self.table.snapshot();
        let definition = state.definitions.iter().find(|index| index.name() == name).ok_or_else(|| unknown(name))?;
        let values = Values::of([object.as_kind()], std::slice::from_ref(definition));
        let mut seen = HashSet::new();
        let slots = values.cell(0).iter().flat_map(|value| state.slots_by_index(name, value).unwrap_or_default());
        let new = slots.filter(|slot| seen.insert(**slot)).filter_map(|slot| state.object(*slot));
        Ok(new.map(|object| object.clone().cast()).collect())
    }

    /// Whether an index would find this object, stored or not, under a value.
    pub(crate) fn is_found_under(&self, name: &str, value: &str, object: &Obj<K>) -> Result<bool, IndexError> {
        let state = self.table.snapshot();
        let definition = state.definitions.iter().find(|index| index.name() == name).ok_or_else(|| unknown(name))?;
        let values = Values::of([object.as_kind()], std::slice::from_ref(definition));
        Ok(values.cell(0).iter().any(|own| own == value))
    }

    /// The values that an index finds objects under, in no particular order; none if there is no such index.
    pub fn index_values(&self, name: &str) -> Vec<String> {
        self.snapshot().index_values(name).map(Into::into).collect()
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<String> {
        self.table.snapshot().definitions.iter().map(|index| index.name().into()).collect()
    }

    /// How many of the objects could not be decoded for an index ([`Index::by`]), and are therefore found under no value.
    pub fn misfits(&self, name: &str) -> Result<usize, IndexError> {
        self.table.snapshot().index(name).map(|index| index.misfits).ok_or_else(|| unknown(name))
    }

    /// Adds indexes, of the objects that are there and of those to come. If a name is taken, or there twice, none is
    /// added.
    pub fn add_indexes(&self, indexes: impl IntoIterator<Item = Index<K>>) -> Result<(), IndexError> {
        let added: Vec<_> = indexes.into_iter().map(Index::cast).collect();
        self.table.add_indexes(&added)
    }
}

/// Writes.
impl<K> Indexer<K> {
    /// Stores an object, whether its key is known or not; answers with what was there before. This is client-go's `Add`
    /// and its `Update`.
    pub fn put(&self, object: Obj<K>) -> Option<Obj<K>> {
        self.write(Write::Put(object.cast()))
    }

    /// Removes the object with this key, if there is one, and answers with it. The store's version stays.
    pub fn remove(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.delete(Deleted::Missed { key: key.clone(), last_known: None })
    }

    /// Removes an object that is gone, and answers with what was stored. If its deletion was seen, the store has reached
    /// the version of that.
    pub fn delete(&self, deleted: Deleted<K>) -> Option<Obj<K>> {
        self.write(Write::Remove(deleted.cast()))
    }

    /// Makes these all the objects there are, and this the version of the store. Of objects with the same key the last
    /// counts. Readers are not held up while it is prepared.
    pub fn replace(&self, objects: impl IntoIterator<Item = Obj<K>>, version: ResourceVersion) {
        let objects: Vec<_> = objects.into_iter().map(Obj::cast).collect();
        self.table.replace(&objects, version);
    }

    /// Nothing has happened up to this version.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.table.bookmark(version);
    }

    /// Makes several writes at once, in order: readers see none of them or all. Answers with what was there before each.
    ///
    /// The function only says what to write. Nothing is written before it returns, or if it panics.
    ///
    /// ```
    /// # use evenkeel_cache::{Indexer, Obj, ObjectKey};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: Indexer<Pod>, new: Obj<Pod>) {
    /// let before = pods.transaction(|tx| {
    ///     tx.put(new);
    ///     tx.remove(&ObjectKey::namespaced("ns", "old"));
    /// });
    /// assert_eq!(before.len(), 2);
    /// # }
    /// ```
    pub fn transaction(&self, write: impl FnOnce(&mut Transaction<K>)) -> Vec<Option<Obj<K>>> {
        let mut transaction = Transaction { writes: Vec::new(), kind: PhantomData };
        write(&mut transaction);
        self.table.transaction(transaction.writes).into_iter().map(|object| object.map(Obj::cast)).collect()
    }

    fn write(&self, write: Write) -> Option<Obj<K>> {
        self.table.transaction(vec![write]).pop().flatten().map(Obj::cast)
    }
}

fn unknown(name: &str) -> IndexError {
    IndexError::Unknown { name: name.into() }
}

/// The writes of one [`Indexer::transaction`].
#[derive(Debug)]
pub struct Transaction<K> {
    writes: Vec<Write>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Transaction<K> {
    /// Stores an object, whether its key is known or not.
    pub fn put(&mut self, object: Obj<K>) {
        self.writes.push(Write::Put(object.cast()));
    }

    /// Removes the object with this key, if there is one.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.delete(Deleted::Missed { key: key.clone(), last_known: None });
    }

    /// Removes an object that is gone.
    pub fn delete(&mut self, deleted: Deleted<K>) {
        self.writes.push(Write::Remove(deleted.cast()));
    }
}

impl<K> Clone for Indexer<K> {
    fn clone(&self) -> Self {
        Self::over(Arc::clone(&self.table))
    }
}

impl<K> fmt::Debug for Indexer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer")
            .field("len", &self.len())
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}
