//! What all indexers are made of.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use evenkeel_core::{ObjectKey, ResourceVersion, Untyped};

use super::index::Index;
use crate::{Deleted, Object};

/// One write of a transaction.
#[derive(Debug)]
pub(crate) enum Write {
    Put(Object),
    Remove(Deleted<Untyped>),
}

/// What a replacement did.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// What is gone.
    pub(crate) gone: Vec<Object>,
    /// What was there before, for each of the new objects.
    pub(crate) previous: Vec<Option<Object>>,
}

/// What all indexers are made of.
#[derive(Debug)]
pub(crate) struct Table {
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    objects: HashMap<ObjectKey, Object>,
    version: ResourceVersion,
    indexes: Vec<Index<Untyped>>,
    commits: u64,
}

impl Table {
    pub(crate) fn new(indexes: Vec<Index<Untyped>>) -> Self {
        let state = State { objects: HashMap::new(), version: ResourceVersion::new(""), indexes, commits: 0 };
        Table { state: RwLock::new(state) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Object> {
        self.read().objects.get(key).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Object> {
        self.read().objects.values().cloned().collect()
    }

    pub(crate) fn by_index(&self, name: &str, value: &str) -> Option<Vec<Object>> {
        let state = self.read();
        let index = state.indexes.iter().find(|index| index.name() == name)?;
        let found = |object: &&Object| index.values(object).iter().any(|own| **own == *value);
        Some(state.objects.values().filter(found).cloned().collect())
    }

    /// How often the objects have changed.
    pub(crate) fn commits(&self) -> u64 {
        self.read().commits
    }

    /// All objects, and how often they had changed by then.
    pub(crate) fn commits_and_objects(&self) -> (u64, Vec<Object>) {
        let state = self.read();
        (state.commits, state.objects.values().cloned().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub(crate) fn add_indexes(&self, indexes: Vec<Index<Untyped>>) -> Result<(), super::IndexError> {
        let mut state = self.write();
        for index in &indexes {
            if state.indexes.iter().any(|other| other.name() == index.name()) {
                return Err(super::IndexError::Conflict { name: index.name().into() });
            }
        }
        state.indexes.extend(indexes);
        Ok(())
    }

    /// The values that an index has for an object, stored or not.
    pub(crate) fn values_of(&self, name: &str, object: &Object) -> Option<Vec<Box<str>>> {
        self.read().indexes.iter().find(|index| index.name() == name).map(|index| index.values(object))
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.read().version.clone()
    }

    /// Applies writes in order, all at once; answers with what was there before each of them.
    pub(crate) fn transaction(&self, writes: Vec<Write>) -> Vec<Option<Object>> {
        let mut state = self.write();
        state.commits += 1;
        let mut previous = Vec::with_capacity(writes.len());
        for write in writes {
            match write {
                Write::Put(object) => {
                    state.version = object.version();
                    previous.push(state.objects.insert(object.key().clone(), object));
                }
                Write::Remove(deleted) => {
                    if let Deleted::Observed(object) = &deleted {
                        state.version = object.version();
                    }
                    previous.push(state.objects.remove(deleted.key()));
                }
            }
        }
        previous
    }

    pub(crate) fn replace(&self, objects: &[Object], version: ResourceVersion) -> Replaced {
        let mut state = self.write();
        state.commits += 1;
        let mut before = std::mem::take(&mut state.objects);
        let mut previous = Vec::with_capacity(objects.len());
        for object in objects {
            previous.push(before.remove(object.key()));
            state.objects.insert(object.key().clone(), object.clone());
        }
        state.version = version;
        Replaced { gone: before.into_values().collect(), previous }
    }

    pub(crate) fn bookmark(&self, version: &ResourceVersion) {
        self.write().version = version.clone();
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
