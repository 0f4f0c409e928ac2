//! Who wants to be woken by which change.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// The changes that can matter to a watcher, as coarse as an index needs it; its exact filter is its own affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    All,
    Namespace(Box<str>),
    Key(Box<str>),
    /// Objects whose selectable field of this index has this value, before or after the change.
    Field(usize, Box<str>),
}

/// A watcher's bed: where it leaves its waker when it goes to sleep.
#[derive(Debug, Default)]
pub(crate) struct WatchWaker {
    waker: Mutex<Option<Waker>>,
    /// Lets a waker pass a watcher that is up already without taking the lock.
    asleep: AtomicBool,
    closed: AtomicBool,
}

impl WatchWaker {
    /// To be called before the last look at the data, so that no change slips in between.
    pub(crate) fn prepare(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(present) if present.will_wake(waker) => {}
            _ => *slot = Some(waker.clone()),
        }
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub(crate) fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Ends the watch.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

type WatchWakers = BTreeMap<u64, Arc<WatchWaker>>;

/// The watchers of one resource, by interest.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    next: AtomicU64,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    all: WatchWakers,
    by_namespace: HashMap<Box<str>, WatchWakers>,
    by_key: HashMap<Box<str>, WatchWakers>,
    /// By the position of the field, then by its value.
    by_field: Vec<HashMap<Box<str>, WatchWakers>>,
}

impl Index {
    fn slot(&mut self, interest: &Interest) -> &mut WatchWakers {
        match interest {
            Interest::All => &mut self.all,
            Interest::Namespace(namespace) => self.by_namespace.entry(namespace.clone()).or_default(),
            Interest::Key(key) => self.by_key.entry(key.clone()).or_default(),
            Interest::Field(position, value) => {
                if self.by_field.len() <= *position {
                    self.by_field.resize_with(position + 1, HashMap::new);
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

    fn everyone(&self) -> impl Iterator<Item = &Arc<WatchWaker>> {
        let keyed = self
            .by_namespace
            .values()
            .chain(self.by_key.values())
            .chain(self.by_field.iter().flat_map(HashMap::values));
        std::iter::once(&self.all).chain(keyed).flat_map(BTreeMap::values)
    }
}

fn drop_if_empty(map: &mut HashMap<Box<str>, WatchWakers>, key: &str) {
    if map.get(key).is_some_and(BTreeMap::is_empty) {
        map.remove(key);
    }
}

impl Watchers {
    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
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

    /// Wakes everyone who may care for a change of this key. `fields` are the selectable fields before and after it.
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

    pub(super) fn wake_everyone(&self) {
        self.index().everyone().for_each(|watch_waker| watch_waker.wake());
    }

    pub(super) fn close_everyone(&self) {
        self.index().everyone().for_each(|watch_waker| watch_waker.close());
    }

    pub(super) fn len(&self) -> usize {
        self.index().everyone().count()
    }
}
