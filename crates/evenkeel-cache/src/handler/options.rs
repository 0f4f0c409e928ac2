//! How a handler wants to be told: [`HandlerOptions`].

use std::borrow::Cow;
use std::time::Duration;

use super::Handler;
use crate::Event;

/// How a handler wants to be told. Say it with [`Handler::with`].
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

/// How a handler is told of what happens while it is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Every notification, in order. What a handler has yet to hear grows for as long as it is slower than the changes
    /// come; [`Registration::lag`](crate::informer::Registration::lag) and the metrics show it.
    #[default]
    Every,
    /// At most one notification per object: from what the handler was told last to what is so now. Changes in between are
    /// folded; an object that came and went meanwhile is not told of; one that went and came back is an update, perhaps to
    /// another uid, from the last state that the server had of it; no deletion is lost of an object that the handler was told
    /// of. What a handler has yet to hear is bounded by the number of objects that exist and of those it was told of.
    Latest,
}

/// What happens when a handler panics. In every case the panic is logged and counted, and nobody else notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The notification counts as told, and the next one follows.
    #[default]
    Continue,
    /// The handler is removed.
    Remove,
}

impl HandlerOptions {
    /// What handlers get that ask for nothing: every notification, and the informer's resync period.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the handler is called in logs and metrics, if not [what it says itself](Handler::name).
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often the handler wants to be told of all objects again, changed or not; zero for never. Below a second is a
    /// second. The informer looks every so often who is due: a handler that is added to a running informer does not make it
    /// look more often, unless it did not look at all.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// How the handler is told of what happens while it is busy.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// What happens when the handler panics.
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }

    /// Calls the handler on a thread of its own, which it may block. A runtime has a limited number of those.
    pub fn may_block(mut self) -> Self {
        self.blocking = true;
        self
    }
}

/// A handler and how it wants to be told. See [`Handler::with`].
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
