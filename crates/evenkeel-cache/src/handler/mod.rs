//! [`Handler`]: receives the notifications of an informer. Ready-made: [`HandlerFuncs`], [`Filter`].

mod filter;
mod funcs;
mod options;

use std::any::type_name;
use std::borrow::Cow;

use crate::Event;

pub use filter::Filter;
pub use funcs::HandlerFuncs;
pub use options::{Delivery, HandlerOptions, OnPanic, WithOptions};

/// Receives the notifications about objects of kind `K`.
///
/// - One task calls it, one event at a time, in the order of each object's changes.
/// - The store holds the object of the event already, or a newer state of it.
/// - A slow handler delays no other. It must not block the thread: more work than noting a key belongs in a queue or a
///   channel, or see [`HandlerOptions::may_block`].
/// - It returns nothing. The handler itself keeps track of what failed.
///
/// Every closure that takes an [`Event`] is a handler:
///
/// ```
/// use evenkeel_cache::{Event, Handler};
/// use k8s_openapi::api::core::v1::Pod;
///
/// fn add_handler(_: impl Handler<Pod>) {}
///
/// let (keys, queue) = std::sync::mpsc::channel();
/// add_handler(move |event: Event<Pod>| {
///     let _ = keys.send(event.key().clone());
/// });
/// # drop(queue);
/// ```
pub trait Handler<K>: Send + 'static {
    /// Handles one notification.
    fn handle(&mut self, event: Event<K>);

    /// Returns the name of the handler in logs and metrics. Default: its type name.
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(type_name::<Self>())
    }

    /// Returns resync period, delivery and panic policy of the handler.
    fn options(&self) -> HandlerOptions {
        HandlerOptions::default()
    }

    /// Returns the same handler with other options.
    fn with(self, options: HandlerOptions) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions { handler: self, options }
    }
}

impl<K, F: FnMut(Event<K>) + Send + 'static> Handler<K> for F {
    fn handle(&mut self, event: Event<K>) {
        self(event);
    }
}

impl<K: 'static> Handler<K> for Box<dyn Handler<K>> {
    fn handle(&mut self, event: Event<K>) {
        (**self).handle(event);
    }

    fn name(&self) -> Cow<'_, str> {
        (**self).name()
    }

    fn options(&self) -> HandlerOptions {
        (**self).options()
    }
}

#[cfg(test)]
mod tests;
