//! [`Pool`]: things that many hold, and how they are found again without being held.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};

/// Things by their hash, for as long as somebody else holds them.
pub(super) struct Pool<T> {
    things: HashMap<u64, Weak<T>, BuildHasherDefault<AlreadyHashed>>,
    /// At how many it is time to look for those that are gone.
    tidy_at: usize,
}

/// Below this it is never tidied.
const FEW: usize = 1024;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { things: HashMap::default(), tidy_at: FEW }
    }
}

impl<T> Pool<T> {
    /// The thing with this hash, if somebody still holds it.
    pub(super) fn get(&self, hash: u64) -> Option<Arc<T>> {
        self.things.get(&hash)?.upgrade()
    }

    /// Remembers a thing, and forgets the one that had its hash.
    pub(super) fn put(&mut self, hash: u64, thing: &Arc<T>) {
        self.things.insert(hash, Arc::downgrade(thing));
        self.tidy();
    }

    /// The thing that is equal to this one and was here first; else this one.
    pub(super) fn shared(&mut self, thing: Arc<T>, hash: impl FnOnce(&T) -> u64) -> Arc<T>
    where
        T: PartialEq,
    {
        match self.things.entry(hash(&thing)) {
            Entry::Occupied(mut known) => match known.get().upgrade() {
                Some(first) if *first == *thing => return first,
                _ => drop(known.insert(Arc::downgrade(&thing))),
            },
            Entry::Vacant(place) => drop(place.insert(Arc::downgrade(&thing))),
        }
        self.tidy();
        thing
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// Forgets what is gone, each time there may be as much of it as there is of the rest.
    fn tidy(&mut self) {
        if self.things.len() < self.tidy_at {
            return;
        }
        self.things.retain(|_, thing| thing.strong_count() > 0);
        self.things.shrink_to(2 * self.things.len());
        self.tidy_at = FEW.max(2 * self.things.len());
    }
}

/// A hash of what is a hash.
#[derive(Default)]
pub(super) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
