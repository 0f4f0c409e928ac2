//! [`StoreState`]: one state of the store, as readers see it.

use std::fmt;
use std::sync::Arc;

use evenkeel_core::{ResourceVersion, Untyped};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::index::Index;
use super::paged::{HashTable, Paged};
use super::scopes::ScopeVersions;
use super::table_places::PlaceVersions;
use crate::Object;

/// Objects per page. Copying a page clones a reference to each of its objects, so pages are small.
const OBJECTS: usize = 64;
const VALUES: usize = 32;

/// One state of the store. A published state does not change while a reader holds it.
///
/// Objects are in numbered slots. A key is looked up in a hash table of slots, and compared with the key of the object. An index
/// is a hash table of value ids, and each value lists its slots. So no key is stored twice, and a look-up in an index hashes one
/// value, not one key per object found.
#[derive(Clone)]
pub(super) struct StoreState {
    secrets: Arc<RapidSecrets>,
    keys: HashTable,
    slots: Paged<Option<Object>, OBJECTS>,
    pub(super) indexes: Vec<IndexState>,
    /// The definitions of the indexes.
    pub(super) definitions: Arc<[Index<Untyped>]>,
    pub(super) totals: Totals,
}

/// Totals of all objects.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    /// The version of the store: the lowest one, if each scope has its own.
    pub(super) version: ResourceVersion,
    /// The versions of the scopes, of a store that several reflectors fill; `None` for all other stores.
    pub(super) scopes: Option<Arc<ScopeVersions>>,
    /// The versions of the places of namespaces, while several reflectors of one scope of places fill the store.
    pub(super) places: Option<Arc<PlaceVersions>>,
    pub(super) objects: usize,
    pub(super) payload_bytes: usize,
    /// The number of writes.
    pub(super) commits: u64,
}

/// One index, as readers see it.
#[derive(Clone, Debug)]
pub(super) struct IndexState {
    name: Arc<str>,
    table: HashTable,
    values: Paged<Option<Value>, VALUES>,
    pub(super) distinct: usize,
    pub(super) misfits: usize,
}

#[derive(Clone, Debug)]
struct Value {
    text: Arc<str>,
    slots: Slots,
}

/// The slots of the objects that have a value, in no particular order.
#[derive(Clone, Debug)]
enum Slots {
    One(u32),
    Many(Arc<Vec<u32>>),
}

impl Slots {
    fn as_slice(&self) -> &[u32] {
        match self {
            Slots::One(slot) => std::slice::from_ref(slot),
            Slots::Many(slots) => slots,
        }
    }
}

impl StoreState {
    pub(super) fn new(definitions: Arc<[Index<Untyped>]>) -> Self {
        // The keys of the standard library are random.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
        let totals = Totals {
            version: ResourceVersion::new(""),
            scopes: None,
            places: None,
            objects: 0,
            payload_bytes: 0,
            commits: 0,
        };
        StoreState {
            secrets: Arc::new(RapidSecrets::seed(seed)),
            keys: HashTable::new(),
            slots: Paged::new(),
            indexes: definitions.iter().map(IndexState::new).collect(),
            definitions,
            totals,
        }
    }

    /// Returns a state without objects, with the same indexes, version and number of writes.
    pub(super) fn emptied(&self) -> Self {
        StoreState {
            secrets: Arc::clone(&self.secrets),
            keys: HashTable::new(),
            slots: Paged::new(),
            indexes: self.definitions.iter().map(IndexState::new).collect(),
            definitions: Arc::clone(&self.definitions),
            totals: Totals { objects: 0, payload_bytes: 0, ..self.totals.clone() },
        }
    }

    pub(super) fn hash(&self, text: &[u8]) -> u32 {
        (rapidhash_v3_seeded(text, &self.secrets) >> 32) as u32
    }

    /// Looks a key up for a write.
    pub(super) fn locate(&self, key: &[u8]) -> Location {
        let hash = self.hash(key);
        let slot = self.keys.find(hash, |slot| self.object(slot).is_some_and(|object| is_named(object, key)));
        Location { hash, slot }
    }

    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Option<&Object> {
        let key = key.as_ref();
        let mut found = None;
        self.keys.find(self.hash(key), |slot| {
            found = self.object(slot).filter(|object| is_named(object, key));
            found.is_some()
        });
        found
    }

    pub(super) fn object(&self, slot: u32) -> Option<&Object> {
        self.slots.get(slot)?.as_ref()
    }

    /// Returns the objects in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Object> + Clone + use<'_> {
        self.slots.iter().flatten()
    }

    /// Clones all objects, in the order of their slots.
    pub(super) fn clone_all(&self) -> Vec<Object> {
        let mut objects = Vec::with_capacity(self.totals.objects);
        self.slots.pages().for_each(|page| objects.extend(page.iter().flatten().cloned()));
        objects
    }

    /// Returns the objects with their slots.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (u32, &Object)> {
        (0..).zip(self.slots.iter()).filter_map(|(slot, object)| Some((slot, object.as_ref()?)))
    }

    pub(super) fn index(&self, name: &str) -> Option<&IndexState> {
        self.indexes.iter().find(|index| &*index.name == name)
    }

    /// Returns the slots of the objects with a value in an index; `None` if there is no such index.
    pub(super) fn slots_by_index(&self, name: &str, value: &str) -> Option<&[u32]> {
        let index = self.index(name)?;
        let found = index.find(self.hash(value.as_bytes()), value).and_then(|id| index.value(id));
        Some(found.map_or(&[], |value| value.slots.as_slice()))
    }

    pub(super) fn reserve(&mut self, objects: usize) {
        self.keys.reserve(objects);
    }

    /// Fills or empties a slot. Returns the previous object.
    pub(super) fn set(&mut self, slot: u32, object: Option<Object>) -> Option<Object> {
        std::mem::replace(self.slots.place(slot), object)
    }

    pub(super) fn link(&mut self, hash: u32, slot: u32) {
        self.keys.insert(hash, slot);
    }

    pub(super) fn unlink(&mut self, hash: u32, slot: u32) {
        self.keys.remove(hash, slot);
    }
}

/// The result of looking a key up: its hash, and the slot of the object that has the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    pub(super) hash: u32,
    pub(super) slot: Option<u32>,
}

/// Returns whether the object has this key.
fn is_named(object: &Object, key: &[u8]) -> bool {
    object.key().as_bytes() == key
}

impl IndexState {
    pub(super) fn new(definition: &Index<Untyped>) -> Self {
        let name = Arc::clone(definition.shared_name());
        IndexState { name, table: HashTable::new(), values: Paged::new(), distinct: 0, misfits: 0 }
    }

    pub(super) fn find(&self, hash: u32, text: &str) -> Option<u32> {
        self.table.find(hash, |id| self.text(id) == Some(text))
    }

    fn value(&self, id: u32) -> Option<&Value> {
        self.values.get(id)?.as_ref()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.value(id).map(|value| &*value.text)
    }

    /// Returns all values, in no particular order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.values.iter().flatten().map(|value| &*value.text)
    }

    /// Adds a value with its first object.
    pub(super) fn begin(&mut self, id: u32, hash: u32, text: Arc<str>, slot: u32) {
        self.table.insert(hash, id);
        *self.values.place(id) = Some(Value { text, slots: Slots::One(slot) });
        self.distinct += 1;
    }

    /// Removes a value whose last object is removed.
    pub(super) fn end(&mut self, id: u32, hash: u32) {
        self.table.remove(hash, id);
        *self.values.place(id) = None;
        self.distinct -= 1;
    }

    /// Returns the number of objects with the value.
    pub(super) fn count(&self, id: u32) -> usize {
        self.value(id).map_or(0, |value| value.slots.as_slice().len())
    }

    /// Adds an object to a value, at the last position.
    pub(super) fn enter(&mut self, id: u32, slot: u32) {
        if let Some(value) = self.values.place(id) {
            match &mut value.slots {
                Slots::One(first) => value.slots = Slots::Many(Arc::new(vec![*first, slot])),
                Slots::Many(slots) => Arc::make_mut(slots).push(slot),
            }
        }
    }

    /// Removes the object at this position from a value that has others. The last one takes its position, and is returned.
    pub(super) fn leave(&mut self, id: u32, place: u32) -> Option<u32> {
        let Some(Value { slots: Slots::Many(slots), .. }) = self.values.place(id) else { return None };
        let slots = Arc::make_mut(slots);
        slots.swap_remove(place as usize);
        slots.get(place as usize).copied()
    }
}

impl fmt::Debug for StoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreState")
            .field("totals", &self.totals)
            .field("definitions", &self.definitions)
            .finish_non_exhaustive()
    }
}
