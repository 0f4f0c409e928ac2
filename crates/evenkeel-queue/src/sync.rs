//! Locks, atomics and threads: the standard ones, or those of a scheduler that tries out many orders of events in tests.

use std::sync::{PoisonError, TryLockError};

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::Arc,
    sync::Mutex,
    sync::MutexGuard,
    sync::Weak,
    sync::atomic::{AtomicBool, Ordering, fence},
    thread,
};

#[cfg(not(shuttle))]
pub(crate) use crossbeam_queue::ArrayQueue as Ring;

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::Arc,
    sync::Mutex,
    sync::MutexGuard,
    sync::Weak,
    sync::atomic::{AtomicBool, Ordering, fence},
    thread,
};

/// Stands in for crossbeam's queue, whose atomics shuttle does not see.
#[cfg(shuttle)]
pub(crate) struct Ring<T> {
    items: Mutex<std::collections::VecDeque<T>>,
    capacity: usize,
}

#[cfg(shuttle)]
impl<T> Ring<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Ring { items: Mutex::new(std::collections::VecDeque::new()), capacity }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut items = lock(&self.items);
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        lock(&self.items).pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.items).is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.items).len()
    }
}

/// Attempts to take a lock before the thread blocks; the pause after each is twice as long as the one before.
const ATTEMPTS: u32 = if cfg!(shuttle) { 0 } else { 10 };

/// Takes a lock that is usually held for less than a microsecond, and for some ten microseconds while a full inbox is applied.
/// Poisoning is ignored.
///
/// The standard lock does not spin once a thread is blocked: each holder then wakes the next, which costs more than all the work
/// under the lock. So a thread spins for longer than the lock is usually held.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match try_lock(mutex) {
        Some(guard) => guard,
        None => spin_lock(mutex),
    }
}

/// Takes a lock if it is free.
#[inline]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cold]
fn spin_lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for attempt in 0..ATTEMPTS {
        (0..1 << attempt).for_each(|_| std::hint::spin_loop());
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
