//! The bounded memory of decoded values that all objects of one [`ResourceInfo`](crate::ResourceInfo) share.
//!
//! A decoded pod takes five times the room of its JSON, so keeping one per object would undo what raw payloads save;
//! keeping none would make two handlers that look at the same event decode it twice, and a controller that looks at the
//! same few objects again and again decode them each time. The middle is a small table of the values that were asked for
//! last. A value has a choice of a few places, behind one lock, and the value goes that was not asked for
//! the longest: so a hundred objects fit next to each other whatever their numbers are, and a look-up is one lock that
//! hardly anybody else wants.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many locks there are.
const SETS: usize = 16;
/// How many values stand behind each: so many that a hundred objects find room however unevenly they are spread. With all
/// locks that makes 256 values per kind, eight megabytes for pods of a common size, if so many were asked for.
const WAYS: usize = 16;
/// How many decoded values are remembered per kind.
#[cfg(test)]
pub(crate) const VALUES: usize = SETS * WAYS;

type Value = Arc<dyn Any + Send + Sync>;
/// By when they were last asked for; the first is the newest.
type Set = [Option<(u64, Value)>; WAYS];

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Memo {
    last_id: AtomicU64,
    /// Made on first use: most infos are only asked for names.
    sets: OnceLock<Box<[Mutex<Set>]>>,
}

impl Memo {
    /// A number for a new object. Numbers are never used twice, so a place can never answer for another object.
    pub(crate) fn number(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The value decoded for this object, if it is still remembered and was decoded into `K`.
    pub(crate) fn get<K: Any + Send + Sync>(&self, id: u64) -> Option<Arc<K>> {
        let mut set = lock(self.sets.get()?, id)?;
        let place = set.iter().position(|place| is_of(place, id))?;
        // Those in front of it move back by one.
        set.get_mut(..=place)?.rotate_right(1);
        let value = set.first()?.as_ref().map(|(_, value)| Arc::clone(value))?;
        drop(set);
        value.downcast().ok()
    }

    /// Remembers a value, and forgets the one of its set that was not asked for the longest.
    pub(crate) fn put<K: Any + Send + Sync>(&self, id: u64, value: &Arc<K>) {
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let Some(mut set) = lock(sets, id) else { return };
        // Its own place if it has one: somebody may have decoded it at the same time, or as another type. Else one that is free.
        let own = set.iter().position(|place| is_of(place, id));
        let place = own.or_else(|| set.iter().position(Option::is_none)).unwrap_or(WAYS - 1);
        if let Some(front) = set.get_mut(..=place) {
            front.rotate_right(1);
        }
        let forgotten = set.first_mut().and_then(|first| first.replace((id, Arc::clone(value) as Value)));
        drop(set);
        // Dropped after the lock: tearing down a large object takes longer than a look-up should wait.
        drop(forgotten);
    }

    /// Forgets the value of an object that is gone.
    pub(crate) fn forget(&self, id: u64) {
        let Some(mut set) = self.sets.get().and_then(|sets| lock(sets, id)) else { return };
        let forgotten = set.iter_mut().find(|place| is_of(place, id)).and_then(Option::take);
        drop(set);
        drop(forgotten);
    }
}

fn is_of(place: &Option<(u64, Value)>, id: u64) -> bool {
    place.as_ref().is_some_and(|(owner, _)| *owner == id)
}

/// The set that the value of this object belongs to: any, whatever pattern there is in the numbers.
fn lock(sets: &[Mutex<Set>], id: u64) -> Option<MutexGuard<'_, Set>> {
    let mut mixed = (id ^ (id >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let index = mixed >> (u64::BITS - SETS.ilog2());
    Some(sets.get(usize::try_from(index).ok()?)?.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
