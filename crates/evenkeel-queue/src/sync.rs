//! Locks, atomics and threads: the standard ones, or those of a scheduler that tries out many orders of events in tests.

use std::sync::{PoisonError, TryLockError};

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::Arc,
    sync::Mutex,
    sync::MutexGuard,
    sync::Weak,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::Arc,
    sync::Mutex,
    sync::MutexGuard,
    sync::Weak,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Attempts to take a lock before the thread blocks; the pause after each is twice as long as the one before.
const ATTEMPTS: u32 = if cfg!(shuttle) { 0 } else { 7 };

/// Takes a lock that is held for less than a microsecond at a time. Poisoning is ignored.
///
/// The standard lock does not spin once a thread is blocked: each holder then wakes the next, which costs more than all the work
/// under the lock.
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
