//! [`InitialList`]: the initial events of a WatchList, until they are complete.

use std::hash::BuildHasher;

use evenkeel_base::hash::spread;
use evenkeel_core::ObjectKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::quality::RandomState;

use super::consistency::{ObjectVersions, version_of};
use crate::Object;

/// The index of one object, with the hash of its key. Small, as there may be a million of them.
#[derive(Clone, Copy, Debug)]
struct InitialSlot {
    hash: u32,
    index: u32,
}

/// The initial objects of a WatchList, in the order of their events.
#[derive(Debug, Default)]
pub(super) struct InitialList {
    /// The index of each object. The object has the key.
    slots: HashTable<InitialSlot>,
    hasher: RandomState,
    objects: Vec<Option<Object>>,
    /// The bytes of the objects' payloads.
    bytes: usize,
    /// The versions of all objects, for the consistency check.
    versions: Option<ObjectVersions>,
}

impl InitialSlot {
    /// Spreads half a hash over a whole one: the table uses the highest bits.
    fn spread(&self) -> u64 {
        spread(u64::from(self.hash))
    }
}

fn key_at<'a>(objects: &'a [Option<Object>], slot: &InitialSlot) -> Option<&'a ObjectKey> {
    objects.get(slot.index as usize)?.as_ref().map(|object| object.key())
}

impl InitialList {
    /// Returns an empty list; with the versions of all objects if they are to be compared.
    pub(super) fn new(with_versions: bool) -> Self {
        InitialList { versions: with_versions.then(ObjectVersions::new), ..InitialList::default() }
    }

    /// Records the version of an object, before it is transformed.
    pub(super) fn note(&mut self, object: &Object, is_deleted: bool) {
        let Some(versions) = &mut self.versions else { return };
        match is_deleted {
            true => versions.remove(object.key()),
            false => versions.insert(object.key().clone(), version_of(object)),
        };
    }

    /// Returns the recorded versions.
    pub(super) fn take_versions(&mut self) -> Option<ObjectVersions> {
        self.versions.take()
    }

    /// Returns the number of objects, removed ones included, and the bytes of their payloads.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.objects.len(), self.bytes)
    }

    /// Adds or replaces an object. Returns whether it was added.
    pub(super) fn put(&mut self, object: Object) -> bool {
        self.bytes += object.payload_bytes();
        let hash = self.hash(object.key());
        let spread = InitialSlot { hash, index: 0 }.spread();
        let is_same = |slot: &InitialSlot| slot.hash == hash && key_at(&self.objects, slot) == Some(object.key());
        match self.slots.entry(spread, is_same, InitialSlot::spread) {
            Entry::Occupied(slot) => {
                if let Some(stored) = self.objects.get_mut(slot.get().index as usize) {
                    let before = stored.replace(object);
                    self.bytes -= before.map_or(0, |before| before.payload_bytes());
                }
                false
            }
            Entry::Vacant(vacant) => {
                // More than four billion objects do not fit into memory.
                if let Ok(index) = u32::try_from(self.objects.len()) {
                    vacant.insert(InitialSlot { hash, index });
                    self.objects.push(Some(object));
                }
                true
            }
        }
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let hash = self.hash(key);
        let is_same = |slot: &InitialSlot| slot.hash == hash && key_at(&self.objects, slot) == Some(key);
        if let Ok(found) = self.slots.find_entry(InitialSlot { hash, index: 0 }.spread(), is_same) {
            let (slot, _) = found.remove();
            if let Some(removed) = self.objects.get_mut(slot.index as usize).and_then(Option::take) {
                self.bytes -= removed.payload_bytes();
            }
        }
    }

    fn hash(&self, key: &ObjectKey) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Returns the objects.
    pub(super) fn into_objects(self) -> Vec<Object> {
        // The table is dropped first, so that it and the result are not in memory at once.
        drop(self.slots);
        self.objects.into_iter().flatten().collect()
    }
}
