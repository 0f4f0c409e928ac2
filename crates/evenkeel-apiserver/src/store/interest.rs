//! The index of watches by the changes that wake them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// The changes that wake a watch. It is coarse, as an index needs it; the watch applies its exact filter itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    All,
    Namespace(Box<str>),
    Key(Box<str>),
    /// Objects whose selectable field of this index has this value, before or after the change.
    Field(usize, Box<str>),
}

/// The waker of a watch that waits for events.
#[derive(Debug, Default)]
pub(crate) struct WatchWaker {
    waker: Mutex<Option<Waker>>,
    /// Whether the watch waits. Lets [`WatchWaker::wake`] skip one that does not, without taking the lock.
    waiting: AtomicBool,
    closed: AtomicBool,
}

impl WatchWaker {
    /// Registers a waker. Called before the last read of the events, so that no event is missed.
    pub(crate) fn prepare(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(present) if present.will_wake(waker) => {}
            _ => *slot = Some(waker.clone()),
        }
        self.waiting.store(true, Ordering::SeqCst);
    }

    pub(crate) fn wake(&self) {
        if self.waiting.swap(false, Ordering::SeqCst) {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Closes the watch.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

type WatchWakers = BTreeMap<u64, Arc<WatchWaker>>;

/// The watches of one resource, by interest.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    next: AtomicU64,
    index: Mutex<InterestIndex>,
}

#[derive(Debug, Default)]
struct InterestIndex {
    all: WatchWakers,
    by_namespace: BTreeMap<Box<str>, WatchWakers>,
    by_key: BTreeMap<Box<str>, WatchWakers>,
    /// By the position of the field, then by its value.
    by_field: Vec<BTreeMap<Box<str>, WatchWakers>>,
}

impl InterestIndex {
    fn slot(&mut self, interest: &Interest) -> &mut WatchWakers {
        match interest {
            Interest::All => &mut self.all,
            Interest::Namespace(namespace) => self.by_namespace.entry(namespace.clone()).or_default(),
            Interest::Key(key) => self.by_key.entry(key.clone()).or_default(),
            Interest::Field(position, value) => {
                if self.by_field.len() <= *position {
                    self.by_field.resize_with(position + 1, BTreeMap::new);
                }
                self.by_field[*position].entry(value.clone()).or_default()
            }
        }
    }

    fn drop_empty(&mut self, interest: &Interest) {
        match interest {
            Interest::All => {}
            Interest::Namespace(namespace) => drop_if_empty(&mut self.by_namespace, namespace),
            Interest::Key(key) => drop_if_empty(&mut self.by_key, key),
            Interest::Field(position, value) => {
                if let Some(by_value) = self.by_field.get_mut(*position) {
                    drop_if_empty(by_value, value);
                }
            }
        }
    }

    fn all_wakers(&self) -> impl Iterator<Item = &Arc<WatchWaker>> {
        let keyed = self
            .by_namespace
            .values()
            .chain(self.by_key.values())
            .chain(self.by_field.iter().flat_map(BTreeMap::values));
        std::iter::once(&self.all).chain(keyed).flat_map(BTreeMap::values)
    }
}

fn drop_if_empty(map: &mut BTreeMap<Box<str>, WatchWakers>, key: &str) {
    if map.get(key).is_some_and(BTreeMap::is_empty) {
        map.remove(key);
    }
}

impl Watchers {
    fn index(&self) -> std::sync::MutexGuard<'_, InterestIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, interest: &Interest, watch_waker: Arc<WatchWaker>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.index().slot(interest).insert(id, watch_waker);
        id
    }

    pub(super) fn remove(&self, interest: &Interest, id: u64) {
        let mut index = self.index();
        index.slot(interest).remove(&id);
        index.drop_empty(interest);
    }

    /// Wakes the watches that a change of this key may concern. `fields` are the selectable fields before and after it.
    pub(super) fn wake<'a>(&self, key: &str, fields: impl Iterator<Item = &'a [Box<str>]>) {
        let index = self.index();
        index.all.values().for_each(|watch_waker| watch_waker.wake());
        if !index.by_namespace.is_empty()
            && let Some((namespace, _)) = key.split_once('/')
            && let Some(watch_wakers) = index.by_namespace.get(namespace)
        {
            watch_wakers.values().for_each(|watch_waker| watch_waker.wake());
        }
        if let Some(watch_wakers) = index.by_key.get(key) {
            watch_wakers.values().for_each(|watch_waker| watch_waker.wake());
        }
        for (by_value, value) in fields.flat_map(|values| index.by_field.iter().zip(values)) {
            if let Some(watch_wakers) = by_value.get(value) {
                watch_wakers.values().for_each(|watch_waker| watch_waker.wake());
            }
        }
    }

    pub(super) fn wake_all(&self) {
        self.index().all_wakers().for_each(|watch_waker| watch_waker.wake());
    }

    pub(super) fn close_all(&self) {
        self.index().all_wakers().for_each(|watch_waker| watch_waker.close());
    }

    pub(super) fn len(&self) -> usize {
        self.index().all_wakers().count()
    }
}
