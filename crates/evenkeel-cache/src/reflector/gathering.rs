//! [`Gathering`]: the objects that a watch begins with, until all have come.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use evenkeel_core::ObjectKey;

use crate::Object;

/// The objects that a watch begins with, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Where each object is.
    places: HashMap<ObjectKey, usize>,
    objects: Vec<Option<Object>>,
}

impl Gathering {
    /// The object is there, in this state.
    pub(super) fn put(&mut self, object: Object) {
        match self.places.entry(object.key().clone()) {
            Entry::Occupied(place) => {
                if let Some(slot) = self.objects.get_mut(*place.get()) {
                    *slot = Some(object);
                }
            }
            Entry::Vacant(vacant) => {
                vacant.insert(self.objects.len());
                self.objects.push(Some(object));
            }
        }
    }

    /// The object is gone.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(place) = self.places.remove(key)
            && let Some(slot) = self.objects.get_mut(place)
        {
            *slot = None;
        }
    }

    /// What is there.
    pub(super) fn into_objects(self) -> Vec<Object> {
        // Keys and places go first, so that they and the result are not in memory at once.
        drop(self.places);
        self.objects.into_iter().flatten().collect()
    }
}
