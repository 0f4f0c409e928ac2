//! Who is told what happens: [`Handler`], and the ready-made ones [`HandlerFuncs`] and [`Filter`].

mod filter;
mod funcs;
mod options;

use std::any::type_name;
use std::borrow::Cow;

use crate::Event;

pub use filter::Filter;
pub use funcs::HandlerFuncs;
pub use options::{Delivery, HandlerOptions, OnPanic, WithOptions};

/// Hears what happens to objects of kind `K`.
///
/// - It is called by one task, one event at a time, in the order in which things happened to each object.
/// - What it is told of is in the store already, or something newer is.
/// - It may take its time: that holds up nobody but itself. It must not block the thread; whoever has more to do than to
///   note a key hands the work to a queue or a channel.
/// - It answers nothing. What fails is for the handler to remember.
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
    /// Something has happened.
    fn handle(&mut self, event: Event<K>);

    /// What the handler is called in logs and metrics: where it was written, unless it knows better.
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(type_name::<Self>())
    }

    /// How it wants to be told.
    fn options(&self) -> HandlerOptions {
        HandlerOptions::default()
    }

    /// The same handler, told in another way.
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
