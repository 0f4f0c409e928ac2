//! [`HandlerOptions`]: resync period, delivery and panic policy of a handler.

use std::borrow::Cow;
use std::time::Duration;

use super::Handler;
use crate::Event;

/// Name, resync period, delivery and panic policy of a handler: see [`Handler::with`].
///
/// ```
/// use std::time::Duration;
/// use evenkeel_cache::{Delivery, Event, Handler, HandlerOptions};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let handler = |event: Event<Pod>| println!("{}", event.key());
/// let handler = handler.with(HandlerOptions::new().resync(Duration::from_secs(30)).delivery(Delivery::Latest));
/// # fn add_handler(_: impl Handler<Pod>) {}
/// # add_handler(handler);
/// ```
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) resync: Option<Duration>,
    pub(crate) delivery: Delivery,
    pub(crate) on_panic: OnPanic,
    pub(crate) blocking: bool,
}

/// Which notifications a busy handler receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Every notification, in order, as in client-go. The queue of a handler that is slower than the changes grows without
    /// bound; [`Registration::lag`](crate::informer::Registration::lag) and the metrics show it.
    #[default]
    Every,
    /// At most one queued notification per object: from the state that was delivered last to the current one.
    ///
    /// - Changes in between are folded.
    /// - An object that was added and deleted in between is not delivered.
    /// - An object that was deleted and created again is an update from the final state of its deletion, perhaps to another uid.
    /// - The delete of an object that the handler received is never lost.
    /// - The queue is bounded by the number of existing objects and of those delivered before.
    Latest,
}

/// What happens when a handler panics. The panic is logged and counted, and other handlers are not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The notification counts as delivered, and the next one follows.
    #[default]
    Continue,
    /// The handler is removed.
    Remove,
}

impl HandlerOptions {
    /// Returns the defaults: every notification, and the informer's resync period.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the handler in logs and metrics. Default: [`Handler::name`].
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the resync period: how often the handler receives all objects again, changed or not. Zero disables resyncs; the
    /// minimum is one second.
    ///
    /// The informer checks at a fixed period which handlers are due. A handler that is added to a running informer does not
    /// shorten that period, unless resyncs were disabled.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets which notifications the handler receives while it is busy.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets what happens when the handler panics.
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }

    /// Calls the handler on a blocking thread of its own. A runtime has a limited number of those.
    pub fn may_block(mut self) -> Self {
        self.blocking = true;
        self
    }
}

/// A handler with options: see [`Handler::with`].
#[derive(Clone, Debug)]
pub struct WithOptions<H> {
    pub(super) handler: H,
    pub(super) options: HandlerOptions,
}

impl<K, H: Handler<K>> Handler<K> for WithOptions<H> {
    fn handle(&mut self, event: Event<K>) {
        self.handler.handle(event);
    }

    fn name(&self) -> Cow<'_, str> {
        self.options.name.clone().unwrap_or_else(|| self.handler.name())
    }

    fn options(&self) -> HandlerOptions {
        self.options.clone()
    }
}
