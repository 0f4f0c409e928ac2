//! The bounded memory of decoded values that all objects of one [`ResourceInfo`](crate::ResourceInfo) share.
//!
//! A decoded pod takes five times the room of its JSON, so keeping one per object would undo what raw payloads save;
//! keeping none would make two handlers that look at the same event decode it twice. The middle is a small table of the
//! values that were decoded last. Objects are numbered as they are made and number modulo size is the slot, so that
//! objects made one after the other never fight for a slot, and a look-up is one uncontended lock.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many decoded values are remembered per kind. Two megabytes for pods of a common size.
pub(crate) const SLOTS: usize = 64;

type Value = Arc<dyn Any + Send + Sync>;
type Slot = Mutex<Option<(u64, Value)>>;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Memo {
    last_id: AtomicU64,
    /// Made on first use: most infos are only asked for names.
    slots: OnceLock<Box<[Slot]>>,
}

impl Memo {
    /// A number for a new object. Numbers are never used twice, so a slot can never answer for another object.
    pub(crate) fn number(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The value decoded for this object, if it is still remembered and was decoded into `K`.
    pub(crate) fn get<K: Any + Send + Sync>(&self, id: u64) -> Option<Arc<K>> {
        let slot = self.slot(id)?.lock().unwrap_or_else(PoisonError::into_inner);
        let value = slot.as_ref().filter(|(owner, _)| *owner == id).map(|(_, value)| Arc::clone(value))?;
        drop(slot);
        value.downcast().ok()
    }

    /// Remembers a value, and forgets the one that had its place.
    pub(crate) fn put<K: Any + Send + Sync>(&self, id: u64, value: &Arc<K>) {
        let Some(slot) = self.slot(id) else { return };
        let value: Value = Arc::clone(value) as Value;
        let forgotten = slot.lock().unwrap_or_else(PoisonError::into_inner).replace((id, value));
        // Dropped after the lock: tearing down a large object takes longer than a look-up should wait.
        drop(forgotten);
    }

    /// Forgets the value of an object that is gone.
    pub(crate) fn forget(&self, id: u64) {
        if self.slots.get().is_none() {
            return;
        }
        let Some(slot) = self.slot(id) else { return };
        let forgotten = slot.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(owner, _)| *owner == id);
        drop(forgotten);
    }

    fn slot(&self, id: u64) -> Option<&Slot> {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| Slot::default()).collect());
        let index = id % SLOTS as u64;
        slots.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_the_last_values_and_no_more() {
        let memo = Memo::default();
        let values: Vec<Arc<u64>> = (0..3 * SLOTS as u64)
            .map(|_| {
                let id = memo.number();
                let value = Arc::new(id);
                memo.put(id, &value);
                value
            })
            .collect();
        let held = values.iter().filter(|value| Arc::strong_count(value) > 1).count();
        assert_eq!(held, SLOTS);
        let newest = 3 * SLOTS as u64 - 1;
        assert_eq!(memo.get::<u64>(newest).as_deref(), Some(&newest));
        assert_eq!(memo.get::<u64>(0), None, "its place was taken");
        assert_eq!(memo.get::<String>(newest), None, "another type is not an answer");
        memo.forget(newest);
        assert_eq!(memo.get::<u64>(newest), None);
    }
}
