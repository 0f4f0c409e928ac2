//! [`Filter`]: a handler that hears of some objects only.

use std::borrow::Cow;
use std::fmt;

use evenkeel_core::Obj;

use super::{Handler, HandlerOptions};
use crate::{Deleted, Event};

/// Tells another handler of those objects only that a predicate accepts.
///
/// The other handler is told as if the rest did not exist: an object that changes so that it is accepted is added to its
/// world (never as [initial](Event::Add::initial)), one that changes so that it is not is deleted from it, with its last
/// accepted state. Of an update the new state is looked at first, then the old one.
///
/// A deletion is judged by the last state that is known of the object. If none is, the deletion is passed on: it is better
/// to hear that something unknown is gone than to wait for it for ever.
///
/// ```
/// use evenkeel_cache::{Event, Filter, Obj};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let web = Filter::new(
///     |pod: &Obj<Pod>| pod.label("app") == Some("web"),
///     |event: Event<Pod>| println!("{}", event.key()),
/// );
/// # drop(web);
/// ```
pub struct Filter<P, H> {
    accepts: P,
    handler: H,
}

impl<P, H> Filter<P, H> {
    /// Tells `handler` of what `accepts` says yes to.
    pub fn new<K>(accepts: P, handler: H) -> Self
    where
        P: FnMut(&Obj<K>) -> bool + Send + 'static,
        H: Handler<K>,
    {
        Filter { accepts, handler }
    }
}

impl<K, P, H> Handler<K> for Filter<P, H>
where
    P: FnMut(&Obj<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    fn options(&self) -> HandlerOptions {
        self.handler.options()
    }

    fn handle(&mut self, event: Event<K>) {
        let accepted = match event {
            Event::Add { ref object, .. } => (self.accepts)(object).then_some(event),
            Event::Update { old, new } => {
                let is = (self.accepts)(&new);
                let was = (self.accepts)(&old);
                match (was, is) {
                    (true, true) => Some(Event::Update { old, new }),
                    (false, true) => Some(Event::Add { object: new, initial: false }),
                    (true, false) => Some(Event::Delete(Deleted::Observed(old))),
                    (false, false) => None,
                }
            }
            Event::Delete(ref deleted) => deleted.object().is_none_or(&mut self.accepts).then_some(event),
        };
        if let Some(event) = accepted {
            self.handler.handle(event);
        }
    }

    /// The name of the handler behind the filter.
    fn name(&self) -> Cow<'_, str> {
        self.handler.name()
    }
}

impl<P, H: fmt::Debug> fmt::Debug for Filter<P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.handler).finish()
    }
}
