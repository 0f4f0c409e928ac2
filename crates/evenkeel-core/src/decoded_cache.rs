//! [`DecodedCache`]: the bounded cache of decoded values that all objects of one [`ResourceInfo`](crate::ResourceInfo) share.
//!
//! A decoded pod takes five times the memory of its JSON, so caching every value would undo what encoded payloads save. Caching none
//! would decode an object once per handler, and again on every reconcile of the same few objects. The cache therefore keeps the
//! most recently used values. It is set-associative: an id maps to one of a few sets, each with its own lock and an LRU of its
//! own, so that a hundred objects fit whatever their ids are and a lookup takes one lock with little contention.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The number of sets.
const SETS: usize = 16;
/// The number of values per set, chosen so that a hundred objects fit however unevenly they are spread. All sets together hold 256
/// values per kind: eight megabytes for pods of a common size.
const WAYS: usize = 16;
/// The capacity.
#[cfg(test)]
pub(crate) const VALUES: usize = SETS * WAYS;

/// 2^64 divided by the golden ratio: the multiplier of Fibonacci hashing.
pub(crate) const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

type DecodedValue = Arc<dyn Any + Send + Sync>;
/// Ids and values, the most recently used first.
type CacheSet = [Option<(u64, DecodedValue)>; WAYS];

/// The cache of one kind.
#[derive(Default)]
pub(crate) struct DecodedCache {
    last_id: AtomicU64,
    /// Allocated on first use: many infos never decode an object.
    sets: OnceLock<Box<[Mutex<CacheSet>]>>,
}

impl DecodedCache {
    /// Returns the id of a new object. Ids are never reused, so an entry cannot belong to another object.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the cached value of an object, if it was decoded as `K`.
    pub(crate) fn get<K: Any + Send + Sync>(&self, id: u64) -> Option<Arc<K>> {
        let mut set = lock(self.sets.get()?, id)?;
        let way = set.iter().position(|entry| has_id(entry, id))?;
        set.get_mut(..=way)?.rotate_right(1);
        let value = set.first()?.as_ref().map(|(_, value)| Arc::clone(value))?;
        drop(set);
        value.downcast().ok()
    }

    /// Caches a value, and evicts the least recently used one of its set.
    pub(crate) fn put<K: Any + Send + Sync>(&self, id: u64, value: &Arc<K>) {
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let Some(mut set) = lock(sets, id) else { return };
        // Another thread may have cached the object meanwhile, or another type of it: that entry is replaced.
        let own = set.iter().position(|entry| has_id(entry, id));
        let way = own.or_else(|| set.iter().position(Option::is_none)).unwrap_or(WAYS - 1);
        if let Some(front) = set.get_mut(..=way) {
            front.rotate_right(1);
        }
        let evicted = set.first_mut().and_then(|first| first.replace((id, Arc::clone(value) as DecodedValue)));
        drop(set);
        // Dropped after the lock: dropping a large object takes longer than a lookup.
        drop(evicted);
    }

    /// Removes the value of a dropped object.
    pub(crate) fn remove(&self, id: u64) {
        let Some(mut set) = self.sets.get().and_then(|sets| lock(sets, id)) else { return };
        let removed = set.iter_mut().find(|entry| has_id(entry, id)).and_then(Option::take);
        drop(set);
        drop(removed);
    }
}

fn has_id(entry: &Option<(u64, DecodedValue)>, id: u64) -> bool {
    entry.as_ref().is_some_and(|(owner, _)| *owner == id)
}

/// Locks the set of an id. The hash spreads ids over the sets whatever their pattern is.
fn lock(sets: &[Mutex<CacheSet>], id: u64) -> Option<MutexGuard<'_, CacheSet>> {
    let mut mixed = (id ^ (id >> 32)).wrapping_mul(GOLDEN_RATIO);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let index = mixed >> (u64::BITS - SETS.ilog2());
    Some(sets.get(usize::try_from(index).ok()?)?.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
