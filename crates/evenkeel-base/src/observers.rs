//! [`Observers`].

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A list of observers of one component. While it is empty, which is the usual case, a call costs one load.
///
/// Observers are called without a lock, in the order in which they were registered. An observer that panics is logged and not
/// called again; the caller and the other observers are unaffected.
pub struct Observers<T: ?Sized> {
    any: AtomicBool,
    next_id: AtomicU64,
    entries: Mutex<Vec<Arc<ObserverEntry<T>>>>,
}

struct ObserverEntry<T: ?Sized> {
    id: u64,
    has_panicked: AtomicBool,
    observer: Box<T>,
}

/// Unregisters an observer when it is dropped. Calls that are in progress are not interrupted.
///
/// It does not keep the observed component alive.
#[must_use = "dropping the guard unregisters the observer"]
pub struct ObserverGuard {
    observers: Weak<dyn Unregister>,
    id: u64,
}

trait Unregister: Send + Sync {
    fn unregister(&self, id: u64);
}

impl<T: ?Sized> Observers<T> {
    /// Returns an empty list.
    pub fn new() -> Self {
        Observers { any: AtomicBool::new(false), next_id: AtomicU64::new(0), entries: Mutex::new(Vec::new()) }
    }

    /// Returns whether there is an observer.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Returns the number of observers.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is no observer.
    pub fn is_empty(&self) -> bool {
        !self.is_any()
    }

    /// Calls each observer. `component` is the component in the log entry for an observer that panics.
    #[inline]
    pub fn call(&self, component: &'static str, call: impl Fn(&T)) {
        if self.is_any() {
            self.call_each(component, &call);
        }
    }

    #[cold]
    fn call_each(&self, component: &'static str, call: &dyn Fn(&T)) {
        let entries = self.lock().clone();
        for entry in entries {
            if entry.has_panicked.load(Ordering::Relaxed) {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| call(&entry.observer))).is_err() {
                entry.has_panicked.store(true, Ordering::Relaxed);
                tracing::error!(component, "observer panicked; it is not called again");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ObserverEntry<T>>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + Send + Sync + 'static> Observers<T> {
    /// Registers an observer.
    pub fn register(self: &Arc<Self>, observer: Box<T>) -> ObserverGuard {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.lock();
        entries.push(Arc::new(ObserverEntry { id, has_panicked: AtomicBool::new(false), observer }));
        self.any.store(true, Ordering::Release);
        drop(entries);
        let observers: Weak<Self> = Arc::downgrade(self);
        ObserverGuard { observers, id }
    }
}

impl<T: ?Sized + Send + Sync> Unregister for Observers<T> {
    fn unregister(&self, id: u64) {
        let mut entries = self.lock();
        let position = entries.iter().position(|entry| entry.id == id);
        let entry = position.map(|position| entries.remove(position));
        self.any.store(!entries.is_empty(), Ordering::Release);
        drop(entries);
        // Without the lock: the destructor of an observer may do anything.
        drop(entry);
    }
}

impl Drop for ObserverGuard {
    fn drop(&mut self) {
        if let Some(observers) = self.observers.upgrade() {
            observers.unregister(self.id);
        }
    }
}

impl<T: ?Sized> Default for Observers<T> {
    fn default() -> Self {
        Observers::new()
    }
}

impl<T: ?Sized> fmt::Debug for Observers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ObserverGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserverGuard").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
