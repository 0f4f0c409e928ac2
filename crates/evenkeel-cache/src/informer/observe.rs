//! Whoever wants to know what becomes of each object on its way through an informer: [`Observer`].

pub use evenkeel_base::ObserverGuard;
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

/// The observers of an informer.
pub(crate) type Observers = evenkeel_base::Observers<dyn Observer>;

/// Calls the observers of an informer.
pub(crate) trait Notify {
    /// Reports an event.
    fn notify(&self, event: InformerEvent<'_>);
}

impl Notify for Observers {
    #[inline]
    fn notify(&self, event: InformerEvent<'_>) {
        self.call("informer", |observer| observer.event(event));
    }
}
