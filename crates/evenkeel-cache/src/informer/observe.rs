//! [`Observer`]: observes each object on its way through an informer.

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
    /// Receives an event.
    fn event(&self, event: InformerEvent<'_>);
}

/// An event of an informer: see [`Observer`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum InformerEvent<'a> {
    /// The reflector received a delta, which enters the delta queue next: an object or a bookmark of a watch, or all objects.
    /// Resyncs are not received: they are [`Applied`](Self::Applied) only.
    Received(&'a Delta),
    /// The store was written, and handlers are notified next. For an object that a relist redelivers unchanged (an update from a
    /// version to the same one), only handlers that are due for a resync are notified.
    Applied {
        /// The notification.
        event: &'a Event<Untyped>,
        /// Whether nothing was written, and this is a resync.
        is_resync: bool,
    },
    /// A handler is called next, on this thread.
    HandlerCalled {
        /// The name of the handler.
        handler: &'a str,
        /// The notification.
        event: &'a Event<Untyped>,
    },
    /// The call of a handler returned.
    HandlerReturned {
        /// The name of the handler.
        handler: &'a str,
        /// The key of the object.
        key: &'a ObjectKey,
        /// Whether the handler panicked.
        panicked: bool,
    },
    /// A list, a watch or an object failed.
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
