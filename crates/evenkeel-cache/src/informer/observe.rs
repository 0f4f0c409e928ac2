//! Whoever wants to know what becomes of each object on its way through an informer: [`Observer`].

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use evenkeel_core::{ObjectKey, Untyped};

use crate::Event;
use crate::delta::Delta;
use crate::reflector::ReflectorFailure;

/// Hears what becomes of objects in an informer: see [`SharedInformer::observe`](crate::SharedInformer::observe).
///
/// # What may be assumed
/// - Of one object, steps are told in the order in which they happen: it is heard of or listed, applied, and then told to each
///   handler.
/// - [`Telling`](InformerEvent::HandlerCalled) and [`Told`](InformerEvent::HandlerReturned) are told on the thread that calls the handler, before and after the
///   call. Whatever the handler does itself, it does in between, on that thread.
/// - It is called without any lock of the informer's, and may ask it whatever it likes.
///
/// # What is not promised
/// - Each handler has a task of its own: what several are told is in no order.
/// - A [`Subscription`](crate::Subscription) takes what it is told, and nobody knows when it is done: that is no step.
///
/// It should be quick: the informer, or the handler, waits for it. If it panics, that is logged, nobody else notices, and it is
/// called no more.
pub trait Observer: Send + Sync + 'static {
    /// Something happens.
    fn event(&self, event: InformerEvent<'_>);
}

/// Something that happens in an informer: see [`Observer`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum InformerEvent<'a> {
    /// The reflector received a delta, which enters the delta queue next: an object or a bookmark of a watch, or all objects.
    /// Resyncs are not received: they are [`Applied`](Self::Applied) only.
    Received(&'a Delta),
    /// The store is written, and this is what handlers are going to be told. Of an object that a list has brought once more as it
    /// was (an update from a version to the same one), handlers are not told whose resync is not due.
    Applied {
        /// What they are told.
        event: &'a Event<Untyped>,
        /// Whether nothing was written, and they are told because the resync period is over.
        is_resync: bool,
    },
    /// A handler is called now, on this thread.
    HandlerCalled {
        /// Its name.
        handler: &'a str,
        /// What it is told.
        event: &'a Event<Untyped>,
    },
    /// The call has returned.
    HandlerReturned {
        /// The name of the handler.
        handler: &'a str,
        /// Which object it was about.
        key: &'a ObjectKey,
        /// Whether it returned by a panic.
        panicked: bool,
    },
    /// Something went wrong with a list, a watch or an object.
    Failed(&'a ReflectorFailure),
}

/// An observer of an informer. When this is dropped, it is called no more, but for calls that are being made. It does not keep
/// the informer running.
#[derive(Debug)]
#[must_use = "the observer is called no more when this is dropped"]
pub struct Observation {
    informer: Weak<Observers>,
    number: u64,
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(observers) = self.informer.upgrade() {
            observers.remove(self.number);
        }
    }
}

/// Those who observe an informer. If there are none, which is the usual case, that costs one load.
#[derive(Default)]
pub(crate) struct Observers {
    any: AtomicBool,
    list: Mutex<ObserverList>,
}

#[derive(Default)]
struct ObserverList {
    next: u64,
    entries: Vec<Arc<ObserverEntry>>,
}

struct ObserverEntry {
    number: u64,
    has_panicked: AtomicBool,
    observer: Box<dyn Observer>,
}

impl Observers {
    /// Whether there is anybody to tell.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    pub(super) fn add(self: &Arc<Self>, observer: Box<dyn Observer>) -> Observation {
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.entries.push(Arc::new(ObserverEntry { number, has_panicked: AtomicBool::new(false), observer }));
        self.any.store(true, Ordering::Release);
        Observation { informer: Arc::downgrade(self), number }
    }

    fn remove(&self, number: u64) {
        let mut list = self.lock();
        let place = list.entries.iter().position(|entry| entry.number == number);
        let entry = place.map(|place| list.entries.remove(place));
        self.any.store(!list.entries.is_empty(), Ordering::Release);
        drop(list);
        // Not under the lock: it may hold anything.
        drop(entry);
    }

    /// Tells of a step, if there is anybody to tell.
    #[inline]
    pub(crate) fn notify(&self, event: InformerEvent<'_>) {
        if self.is_any() {
            self.call(event);
        }
    }

    #[cold]
    fn call(&self, event: InformerEvent<'_>) {
        let entries = self.lock().entries.clone();
        for entry in entries {
            if entry.has_panicked.load(Ordering::Relaxed) {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| entry.observer.event(event))).is_err() {
                entry.has_panicked.store(true, Ordering::Relaxed);
                tracing::error!("an observer of an informer has panicked; it is told nothing more");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ObserverList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("number", &self.len()).finish_non_exhaustive()
    }
}
