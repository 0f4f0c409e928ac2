//! [`Filter`]: passes the events of some objects to another handler.

use std::borrow::Cow;
use std::fmt;

use evenkeel_core::Obj;

use super::{Handler, HandlerOptions};
use crate::{Deleted, Event};

/// Passes the events of the objects that a predicate accepts to another handler: client-go's `FilteringResourceEventHandler`.
///
/// For that handler the other objects do not exist. An update that makes an object accepted becomes an add (never
/// [initial](Event::Add::initial)); one that makes it rejected becomes a delete with its last accepted state. The predicate
/// is called with the new state first, then with the old one.
///
/// A delete is judged by the last known state of the object. Without one it is passed on, so that no delete is lost.
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
    /// Returns a handler that passes the events of accepted objects to `handler`.
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

    /// Returns the name of the inner handler.
    fn name(&self) -> Cow<'_, str> {
        self.handler.name()
    }
}

impl<P, H: fmt::Debug> fmt::Debug for Filter<P, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.handler).finish()
    }
}
