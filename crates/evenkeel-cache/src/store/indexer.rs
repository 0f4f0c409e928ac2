//! [`Indexer`]: the objects of one kind, by key and by index.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceVersion};

use super::index::{Index, IndexError};
use super::table::Table;

/// The objects of one kind, by key and by any number of indexes. Cheap to clone; clones share the objects.
pub struct Indexer<K> {
    table: Arc<Table>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Indexer<K> {
    /// An empty one with these indexes.
    pub fn new(indexes: impl IntoIterator<Item = Index<K>>) -> Self {
        Self::over(Arc::new(Table::new(indexes.into_iter().map(Index::cast).collect())))
    }

    pub(crate) fn over(table: Arc<Table>) -> Self {
        Indexer { table, kind: PhantomData }
    }

    /// The object with this key.
    pub fn get(&self, key: impl AsRef<str>) -> Option<Obj<K>> {
        self.table.get(key.as_ref()).map(Obj::cast)
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Obj<K>> {
        self.table.list().into_iter().map(Obj::cast).collect()
    }

    /// The objects that an index finds under a value.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Obj<K>>, IndexError> {
        let found = self.table.by_index(name, value).ok_or_else(|| IndexError::Unknown { name: name.into() })?;
        Ok(found.into_iter().map(Obj::cast).collect())
    }

    /// Whether an index would find this object, stored or not, under a value.
    pub(crate) fn is_found_under(&self, name: &str, value: &str, object: &Obj<K>) -> Result<bool, IndexError> {
        let values = self.table.values_of(name, object.as_kind());
        let values = values.ok_or_else(|| IndexError::Unknown { name: name.into() })?;
        Ok(values.iter().any(|own| **own == *value))
    }

    /// The version that the store has reached.
    pub fn resource_version(&self) -> ResourceVersion {
        self.table.version()
    }
}

impl<K> Clone for Indexer<K> {
    fn clone(&self) -> Self {
        Self::over(Arc::clone(&self.table))
    }
}

impl<K> fmt::Debug for Indexer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer").field("version", &self.resource_version()).finish_non_exhaustive()
    }
}
