//! [`Handler`]: receives the notifications of an informer. Ready-made: [`HandlerFuncs`], [`Filter`].

mod filter;
mod funcs;
mod options;

use std::borrow::Cow;

use crate::Event;

pub use filter::Filter;
pub use funcs::HandlerFuncs;
pub use options::{Delivery, HandlerOptions, OnPanic, WithOptions};

/// The name of handlers that have none.
const DEFAULT_NAME: &str = "handler";

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

    /// Returns the name of the handler in logs, in metrics and on the live page. Default: `handler`. The second handler of a name
    /// has `-2` appended, and so on.
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(DEFAULT_NAME)
    }

    /// Returns resync period, delivery and panic policy of the handler.
    fn options(&self) -> HandlerOptions {
        HandlerOptions::default()
    }

    /// Returns the same handler with another name.
    ///
    /// ```
    /// use evenkeel_cache::{Event, Handler};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = (|event: Event<Pod>| println!("{}", event.key())).named("printer");
    /// assert_eq!(Handler::<Pod>::name(&pods), "printer");
    /// ```
    fn named(self, name: impl Into<Cow<'static, str>>) -> WithOptions<Self>
    where
        Self: Sized,
    {
        WithOptions { options: self.options().name(name), handler: self }
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
