//! [`Indexer`]: the objects of one kind, by key and by index.

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

/// The objects of one kind, by key and by any number of indexes, to be read. Cheap to clone; clones share the objects.
///
/// - Objects are told apart by namespace and name alone, and never change.
/// - Reads wait for no more than a small write: large ones are prepared aside. Each sees one state, with all of a transaction or
///   nothing of it; [`snapshot`](Self::snapshot) answers several questions from one state, and by reference.
/// - Who writes has the [`Store`](super::Store) behind it: an informer keeps its own to itself.
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
