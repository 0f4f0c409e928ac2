//! [`Heap`]: keyed values, least value first.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A queue of keyed values that pops the least value first. Threads and tasks can share it.
///
/// - There is one value per key. Adding another one with the same key replaces it and reorders it.
/// - The order of equal values is not guaranteed.
/// - After [`close`](Self::close) no value can be added; the rest can still be popped, removed and read.
///
/// The comparison function runs under the lock of the heap, so it must not use the heap.
///
/// ```
/// use evenkeel_cache::compat::Heap;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let heap = Heap::new(|task: &(&str, u32)| task.0, |a, b| a.1 < b.1);
/// heap.add_all([("sweep", 7), ("cook", 3)])?;
/// heap.add(("sweep", 1))?;
/// assert_eq!(heap.pop().await, Some(("sweep", 1)));
/// assert_eq!(heap.pop().await, Some(("cook", 3)));
/// heap.close();
/// assert_eq!(heap.pop().await, None);
/// # Ok::<(), evenkeel_cache::compat::HeapClosed>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<K, T> {
    key: Box<dyn Fn(&T) -> K + Send + Sync>,
    less: Box<Less<T>>,
    state: Mutex<HeapState<K, T>>,
    added: Notify,
}

type Less<T> = dyn Fn(&T, &T) -> bool + Send + Sync;

/// The heap is closed; the value was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("heap is closed")]
pub struct HeapClosed;

struct HeapState<K, T> {
    /// A binary heap: the value at `n` is before those at `2n + 1` and `2n + 2`.
    line: Vec<(K, T)>,
    places: HashMap<K, usize>,
    closed: bool,
}

impl<K: Clone + Eq + Hash, T> Heap<K, T> {
    /// Returns an empty heap, from a function that returns the key of a value and one that orders two values.
    pub fn new(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        less: impl Fn(&T, &T) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state = HeapState { line: Vec::new(), places: HashMap::new(), closed: false };
        Heap { key: Box::new(key), less: Box::new(less), state: Mutex::new(state), added: Notify::new() }
    }

    /// Adds a value, or replaces the one with the same key.
    pub fn add(&self, thing: T) -> Result<(), HeapClosed> {
        self.add_all([thing])
    }

    /// Adds values in one step: none can be popped before all are added.
    pub fn add_all(&self, things: impl IntoIterator<Item = T>) -> Result<(), HeapClosed> {
        let keyed: Vec<(K, T)> = things.into_iter().map(|thing| ((self.key)(&thing), thing)).collect();
        let mut state = self.open()?;
        for (key, thing) in keyed {
            state.put(key, thing, &*self.less);
        }
        self.added.notify_one();
        Ok(())
    }

    /// Adds a value, unless one with the same key exists.
    pub fn add_if_absent(&self, thing: T) -> Result<(), HeapClosed> {
        let key = (self.key)(&thing);
        let mut state = self.open()?;
        if !state.places.contains_key(&key) {
            state.put(key, thing, &*self.less);
            self.added.notify_one();
        }
        Ok(())
    }

    /// Removes and returns the value with this key.
    pub fn remove(&self, key: &K) -> Option<T> {
        let mut state = self.lock();
        let place = *state.places.get(key)?;
        state.take(place, &*self.less)
    }

    /// Removes and returns the least value. Waits while the heap is empty; returns `None` when it is empty and closed. Cancel
    /// safe.
    pub async fn pop(&self) -> Option<T> {
        loop {
            // Before the check, so that no later change is missed.
            let added = self.added.notified();
            if let Some(thing) = self.try_pop() {
                return Some(thing);
            }
            if self.lock().closed {
                // A value may have been added between the two checks.
                return self.try_pop();
            }
            added.await;
        }
    }

    /// Removes and returns the least value, if there is one.
    pub fn try_pop(&self) -> Option<T> {
        let mut state = self.lock();
        let thing = state.take(0, &*self.less)?;
        if !state.line.is_empty() {
            // Several additions may have woken only one waiter; waiters wake each other.
            self.added.notify_one();
        }
        Some(thing)
    }

    /// Closes the heap and wakes all waiters.
    pub fn close(&self) {
        self.lock().closed = true;
        self.added.notify_waiters();
    }

    /// Returns `true` if the heap is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns all keys, in no particular order.
    pub fn keys(&self) -> Vec<K> {
        self.lock().line.iter().map(|(key, _)| key.clone()).collect()
    }

    fn open(&self) -> Result<MutexGuard<'_, HeapState<K, T>>, HeapClosed> {
        let state = self.lock();
        if state.closed { Err(HeapClosed) } else { Ok(state) }
    }
}

impl<K: Eq + Hash, T: Clone> Heap<K, T> {
    /// Returns the value with this key.
    pub fn get(&self, key: &K) -> Option<T> {
        let state = self.lock();
        let place = *state.places.get(key)?;
        state.line.get(place).map(|(_, thing)| thing.clone())
    }

    /// Returns all values, in no particular order.
    pub fn list(&self) -> Vec<T> {
        self.lock().line.iter().map(|(_, thing)| thing.clone()).collect()
    }
}

impl<K, T> Heap<K, T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.lock().line.len()
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HeapState<K, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, T> HeapState<K, T> {
    fn put(&mut self, key: K, thing: T, less: &Less<T>) {
        match self.places.get(&key) {
            Some(&place) => {
                self.line[place].1 = thing;
                self.settle(place, less);
            }
            None => {
                let place = self.line.len();
                self.places.insert(key.clone(), place);
                self.line.push((key, thing));
                self.rise(place, less);
            }
        }
    }

    fn take(&mut self, place: usize, less: &Less<T>) -> Option<T> {
        let last = self.line.len().checked_sub(1)?;
        self.swap(place, last);
        let (key, thing) = self.line.pop()?;
        self.places.remove(&key);
        if place < last {
            self.settle(place, less);
        }
        Some(thing)
    }

    fn settle(&mut self, place: usize, less: &Less<T>) {
        if self.rise(place, less) == place {
            self.sink(place, less);
        }
    }

    fn rise(&mut self, mut place: usize, less: &Less<T>) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !less(&self.line[place].1, &self.line[parent].1) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize, less: &Less<T>) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.line.len() && less(&self.line[child].1, &self.line[least].1) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            self.line.swap(a, b);
            for place in [a, b] {
                if let Some(known) = self.places.get_mut(&self.line[place].0) {
                    *known = place;
                }
            }
        }
    }
}

impl<K, T> fmt::Debug for Heap<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Heap").field("len", &state.line.len()).field("closed", &state.closed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
