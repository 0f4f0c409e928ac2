//! [`Indexer`]: reads the objects of one kind, by key and by index.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ObjectKey, ResourceVersion};

use super::index::{Index, IndexError};
use super::snapshot::Snapshot;
use super::table::Table;
use super::values::Values;
use super::wait::StoreStopped;

/// Read access to the objects of one kind, by key and by any number of indexes. Cheap to clone; clones share the objects.
///
/// - Namespace and name identify an object. Objects are immutable.
/// - A read waits at most for a small write: large writes are prepared on a copy. Each read sees complete transactions only;
///   [`snapshot`](Self::snapshot) serves several reads from one state, by reference.
/// - Only the [`Store`](super::Store) behind it can write. An informer does not share its own.
///
/// ```
/// # fn example(pods: evenkeel_cache::Indexer<k8s_openapi::api::core::v1::Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// for pod in pods.by_index("node", "n1")? {
///     println!("{} {:?}", pod.key(), pod.path("status.phase")?.map(|phase| phase.text().into_owned()));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Indexer<K> {
    pub(super) table: Arc<Table>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Indexer<K> {
    pub(crate) fn over(table: Arc<Table>) -> Self {
        Indexer { table, kind: PhantomData }
    }

    /// Returns the same indexer for objects that are decoded as `L`.
    pub(crate) fn cast<L>(self) -> Indexer<L> {
        Indexer::over(self.table)
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the current state, for several reads or for many objects.
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::of(self.table.snapshot())
    }

    /// Returns the object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        self.table.get(key.as_ref()).map(Obj::cast)
    }

    /// Returns whether the store may contain an object with this key: `false` if its namespace is not in the
    /// [set](crate::NamespaceSet) of the informer.
    pub fn is_in_scope(&self, key: &ObjectKey) -> bool {
        match (self.table.namespaces(), key.namespace()) {
            (Some(set), Some(namespace)) => set.covers(namespace),
            _ => true,
        }
    }

    /// Returns all objects, in no particular order. Clones a reference to each; [`snapshot`](Self::snapshot) does not.
    pub fn list(&self) -> Vec<Obj<K>> {
        self.table.list().into_iter().map(Obj::cast).collect()
    }

    /// Returns the keys of all objects, in no particular order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.table.keys()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of all payloads in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.table.payload_bytes()
    }

    /// Returns the resource version of the store: the newest that was written, or that of the last list or bookmark.
    ///
    /// Comparable versions never move it back, except for that of a list. Of other versions the last one is used. If each namespace
    /// has a version of its own, this is the lowest; it is empty until all have one.
    pub fn resource_version(&self) -> ResourceVersion {
        self.table.version()
    }

    /// Waits until the store reaches this version: until it contains the write that returned it.
    ///
    /// The empty version and `0` mean any version, and return at once. A version that cannot be compared is reached when an object,
    /// a bookmark or a list has exactly this version from now on, or if it is the current one; if it was passed already, this waits
    /// forever. There is no timeout. Cancel safe.
    ///
    /// # Errors
    /// If the informer that fills the store stops.
    ///
    /// The store of an informer of [several namespaces](crate::NamespaceSet) has a version per namespace, and this waits for all
    /// of them: for those without changes until their next bookmark, about a minute. [`at_least_for`](Self::at_least_for) waits for
    /// one.
    pub async fn at_least(&self, version: &ResourceVersion) -> Result<(), StoreStopped> {
        self.table.at_least(None, version).await
    }

    /// Waits until the store reaches this version in the namespace of an object: until it contains the write of the object that
    /// returned the version. As [`at_least`](Self::at_least) for an informer with one reflector.
    ///
    /// # Errors
    /// If the informer that fills the store stops, or the namespace is not in its set.
    pub async fn at_least_for(&self, key: &ObjectKey, version: &ResourceVersion) -> Result<(), StoreStopped> {
        self.table.at_least(key.namespace(), version).await
    }
}

/// Indexes.
impl<K> Indexer<K> {
    /// Returns the objects with a value in an index, in no particular order.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Obj<K>>, IndexError> {
        let found = self.table.by_index(name, value).ok_or_else(|| unknown(name))?;
        Ok(found.into_iter().map(Obj::cast).collect())
    }

    /// Returns the keys of the objects with a value in an index, ascending.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, IndexError> {
        let mut keys: Vec<ObjectKey> =
            self.snapshot().by_index(name, value)?.map(|object| object.key().clone()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns the objects that share at least one value of an index with this object, each once. It need not be stored.
    pub fn index(&self, name: &str, object: &Obj<K>) -> Result<Vec<Obj<K>>, IndexError> {
        let state = self.table.snapshot();
        let definition = state.definitions.iter().find(|index| index.name() == name).ok_or_else(|| unknown(name))?;
        let values = Values::of([object.as_kind()], std::slice::from_ref(definition));
        let mut seen = HashSet::new();
        let slots = values.cell(0).iter().flat_map(|value| state.slots_by_index(name, value).unwrap_or_default());
        let new = slots.filter(|slot| seen.insert(**slot)).filter_map(|slot| state.object(*slot));
        Ok(new.map(|object| object.clone().cast()).collect())
    }

    /// Returns whether an object, stored or not, has a value in an index.
    pub(crate) fn is_found_under(&self, name: &str, value: &str, object: &Obj<K>) -> Result<bool, IndexError> {
        let state = self.table.snapshot();
        let definition = state.definitions.iter().find(|index| index.name() == name).ok_or_else(|| unknown(name))?;
        let values = Values::of([object.as_kind()], std::slice::from_ref(definition));
        Ok(values.cell(0).iter().any(|own| own == value))
    }

    /// Returns the values of an index, in no particular order; none if there is no such index.
    pub fn index_values(&self, name: &str) -> Vec<String> {
        self.snapshot().index_values(name).map(Into::into).collect()
    }

    /// Returns the names of the indexes.
    pub fn index_names(&self) -> Vec<String> {
        self.table.snapshot().definitions.iter().map(|index| index.name().into()).collect()
    }

    /// Returns the number of objects without values because they could not be indexed: they could not be decoded ([`Index::by`]), or
    /// the index function panicked.
    pub fn misfits(&self, name: &str) -> Result<usize, IndexError> {
        self.table.snapshot().index(name).map(|index| index.misfits).ok_or_else(|| unknown(name))
    }

    /// Adds indexes, for stored and later objects. If a name is taken or occurs twice, none is added.
    pub fn add_indexes(&self, indexes: impl IntoIterator<Item = Index<K>>) -> Result<(), IndexError> {
        let added: Vec<_> = indexes.into_iter().map(Index::cast).collect();
        self.table.add_indexes(&added)
    }
}

fn unknown(name: &str) -> IndexError {
    IndexError::Unknown { name: name.into() }
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
