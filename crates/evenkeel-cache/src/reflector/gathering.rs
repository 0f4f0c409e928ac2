//! [`Gathering`]: the objects that a watch begins with, until all have come.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use evenkeel_core::ObjectKey;

use super::consistency::{States, state_of};
use crate::Object;

/// The objects that a watch begins with, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Where each object is.
    places: HashMap<ObjectKey, usize>,
    objects: Vec<Option<Object>>,
    /// All objects as they came, if somebody wants to compare them.
    states: Option<States>,
}

impl Gathering {
    /// Nothing yet; with a record of all states if they are to be compared.
    pub(super) fn new(with_states: bool) -> Self {
        Gathering { states: with_states.then(States::new), ..Gathering::default() }
    }

    /// This has come, before anything is done to it.
    pub(super) fn note(&mut self, object: &Object, is_gone: bool) {
        let Some(states) = &mut self.states else { return };
        match is_gone {
            true => states.remove(object.key()),
            false => states.insert(object.key().clone(), state_of(object)),
        };
    }

    /// What has come, if it was recorded.
    pub(super) fn take_states(&mut self) -> Option<States> {
        self.states.take()
    }

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
