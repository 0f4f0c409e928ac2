//! [`StoreDigest`]: the keys and versions of the stored objects, as hashes. No I/O.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use evenkeel_core::{ObjectKey, Untyped};

use super::ConsistencyOutcome;
use crate::{Object, Snapshot};

/// The maximal number of example keys.
pub(super) const EXAMPLES: usize = 10;

/// The keys and versions of the stored objects, as hashes, so that the check holds no object. The hash keys are random: no object
/// can be named so that it hides another one.
#[derive(Debug)]
pub(super) struct StoreDigest {
    /// The hash of the version by that of the key; 0 if a transform removed the version.
    states: HashMap<u64, u64>,
    hasher: RandomState,
    missing: usize,
    different: usize,
    examples: Vec<ObjectKey>,
}

impl StoreDigest {
    pub(super) fn with_capacity(objects: usize) -> Self {
        StoreDigest {
            states: HashMap::with_capacity(objects),
            hasher: RandomState::new(),
            missing: 0,
            different: 0,
            examples: Vec::new(),
        }
    }

    /// Adds a stored object.
    pub(super) fn add(&mut self, object: &Object) {
        let (key, version) = (self.hash(object.key().as_str()), object.resource_version());
        let version = if version.is_empty() { 0 } else { self.version_hash(version) };
        self.states.insert(key, version);
    }

    /// Returns whether the store has this object of the list, in the same state. It is then done.
    pub(super) fn matches(&mut self, object: &Object) -> bool {
        let key = self.hash(object.key().as_str());
        let is_same = match self.states.get(&key) {
            None => return false,
            Some(0) => true,
            Some(version) => *version == self.version_hash(object.resource_version()),
        };
        if is_same {
            self.states.remove(&key);
        }
        is_same
    }

    /// Records an object of the list that the store has in another state, or not at all.
    pub(super) fn mismatch(&mut self, key: ObjectKey) {
        match self.states.remove(&self.hash(key.as_str())) {
            Some(_) => self.different += 1,
            None => self.missing += 1,
        }
        if self.examples.len() < EXAMPLES {
            self.examples.push(key);
        }
    }

    /// Leaves an object out of the comparison.
    pub(super) fn ignore(&mut self, key: &ObjectKey) {
        self.states.remove(&self.hash(key.as_str()));
    }

    /// Returns the outcome, after the whole list. The store has the keys of extra objects.
    pub(super) fn outcome(mut self, store: impl FnOnce() -> Snapshot<Untyped>) -> ConsistencyOutcome {
        let extra = self.states.len();
        if self.missing + self.different + extra == 0 {
            return ConsistencyOutcome::Consistent;
        }
        if extra > 0 && self.examples.len() < EXAMPLES {
            let room = EXAMPLES - self.examples.len();
            let store = store();
            let is_extra = |object: &&Object| self.states.contains_key(&self.hash(object.key().as_str()));
            let extras: Vec<ObjectKey> =
                store.iter().filter(is_extra).take(room).map(|object| object.key().clone()).collect();
            self.examples.extend(extras);
        }
        let StoreDigest { missing, different, examples, .. } = self;
        ConsistencyOutcome::Inconsistent { missing, extra, different, examples }
    }

    fn version_hash(&self, version: &str) -> u64 {
        self.hash(version) | 1
    }

    fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }
}
