//! [`Observer`]: observes each object on its way through an informer.

pub use evenkeel_base::ObserverGuard;
use evenkeel_core::{ObjectKey, Untyped};

use crate::Event;
use crate::delta::Delta;
use crate::reflector::ReflectorFailure;

/// Observes the objects of an informer: see [`SharedInformer::observe`](crate::SharedInformer::observe).
///
/// # Guarantees
/// - The events of one object are in order: received, applied, then the calls of each handler.
/// - [`HandlerCalled`](InformerEvent::HandlerCalled) and [`HandlerReturned`](InformerEvent::HandlerReturned) are reported on the
///   thread that calls the handler, before and after the call. The handler runs between them.
/// - The observer is called without a lock, and may use the informer.
///
/// # Not guaranteed
/// - Each handler has its own task: there is no order between the calls of several handlers.
/// - A [`Subscription`](crate::Subscription) reports no calls.
///
/// The observer should be fast: the informer or the handler waits for it. A panic is logged, and the observer is not called again.
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
