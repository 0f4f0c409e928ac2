//! [`InitialList`]: the objects that a watch begins with, until all have come.

use std::hash::BuildHasher;

use evenkeel_core::ObjectKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::quality::RandomState;

use super::consistency::{ObjectVersions, version_of};
use crate::Object;

/// The place of one object, with the hash of its key: a few bytes, as there may be a million of them.
#[derive(Clone, Copy, Debug)]
struct InitialSlot {
    hash: u32,
    index: u32,
}

/// The objects that a watch begins with, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct InitialList {
    /// Where each object is. Whose place it is says the object that is there.
    places: HashTable<InitialSlot>,
    hasher: RandomState,
    objects: Vec<Option<Object>>,
    /// All objects as they came, if somebody wants to compare them.
    states: Option<ObjectVersions>,
}

/// Half a hash, spread over a whole one: the table looks at its highest bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl InitialSlot {
    fn spread(&self) -> u64 {
        u64::from(self.hash).wrapping_mul(SPREAD)
    }
}

fn key_at<'a>(objects: &'a [Option<Object>], place: &InitialSlot) -> Option<&'a ObjectKey> {
    objects.get(place.index as usize)?.as_ref().map(|object| object.key())
}

impl InitialList {
    /// Nothing yet; with a record of all states if they are to be compared.
    pub(super) fn new(with_states: bool) -> Self {
        InitialList { states: with_states.then(ObjectVersions::new), ..InitialList::default() }
    }

    /// This has come, before anything is done to it.
    pub(super) fn note(&mut self, object: &Object, is_gone: bool) {
        let Some(states) = &mut self.states else { return };
        match is_gone {
            true => states.remove(object.key()),
            false => states.insert(object.key().clone(), version_of(object)),
        };
    }

    /// What has come, if it was recorded.
    pub(super) fn take_versions(&mut self) -> Option<ObjectVersions> {
        self.states.take()
    }

    /// The object is there, in this state.
    pub(super) fn put(&mut self, object: Object) {
        let hash = self.hash(object.key());
        let spread = InitialSlot { hash, index: 0 }.spread();
        let is_same = |place: &InitialSlot| place.hash == hash && key_at(&self.objects, place) == Some(object.key());
        match self.places.entry(spread, is_same, InitialSlot::spread) {
            Entry::Occupied(place) => {
                if let Some(slot) = self.objects.get_mut(place.get().index as usize) {
                    *slot = Some(object);
                }
            }
            Entry::Vacant(vacant) => {
                // More than four billion objects do not fit into memory.
                if let Ok(index) = u32::try_from(self.objects.len()) {
                    vacant.insert(InitialSlot { hash, index });
                    self.objects.push(Some(object));
                }
            }
        }
    }

    /// The object is gone.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let hash = self.hash(key);
        let is_same = |place: &InitialSlot| place.hash == hash && key_at(&self.objects, place) == Some(key);
        if let Ok(found) = self.places.find_entry(InitialSlot { hash, index: 0 }.spread(), is_same) {
            let (place, _) = found.remove();
            if let Some(slot) = self.objects.get_mut(place.index as usize) {
                *slot = None;
            }
        }
    }

    fn hash(&self, key: &ObjectKey) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// What is there.
    pub(super) fn into_objects(self) -> Vec<Object> {
        // Keys and places go first, so that they and the result are not in memory at once.
        drop(self.places);
        self.objects.into_iter().flatten().collect()
    }
}
