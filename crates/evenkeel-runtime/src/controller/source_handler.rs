//! [`SourceHandler`]: filters the events of a source, and forwards them to the handler that enqueues keys.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_cache::{Event, Handler, HandlerOptions};

use super::deletion_waiters::DeletionWaiters;
use super::predicate::Predicate;
use crate::enqueue::event_name;

/// A function that sees every event before the predicates.
pub(super) type EventObserver<T> = Arc<Mutex<dyn FnMut(&Event<T>) + Send>>;

/// The functions of a source. Handlers that the source adds one after the other share them.
pub(super) struct EventFilters<T> {
    pub(super) observers: Vec<EventObserver<T>>,
    pub(super) predicates: Vec<Arc<dyn Predicate<T>>>,
}

impl<T> Default for EventFilters<T> {
    fn default() -> Self {
        EventFilters { observers: Vec::new(), predicates: Vec::new() }
    }
}

impl<T> Clone for EventFilters<T> {
    fn clone(&self) -> Self {
        EventFilters { observers: self.observers.clone(), predicates: self.predicates.clone() }
    }
}

impl<T: 'static> EventFilters<T> {
    fn observe(&self, event: &Event<T>) {
        for observer in &self.observers {
            let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
            (*observer)(event);
        }
    }

    fn accept(&self, event: &Event<T>) -> bool {
        self.predicates.iter().all(|predicate| predicate.accepts(event))
    }
}

/// Notifies the waiters for deletions, and forwards events that all predicates accept.
pub(super) struct SourceHandler<T> {
    deletion_waiters: Arc<DeletionWaiters>,
    filters: EventFilters<T>,
    handler: Option<Box<dyn Handler<T>>>,
    name: String,
    resync: Option<Duration>,
}

impl<T: 'static> SourceHandler<T> {
    pub(super) fn new(
        deletion_waiters: Arc<DeletionWaiters>,
        filters: EventFilters<T>,
        handler: Option<Box<dyn Handler<T>>>,
        controller: &str,
        resync: Option<Duration>,
    ) -> Self {
        let name = match &handler {
            Some(handler) => handler.name().into_owned(),
            None => format!("reads of {controller}"),
        };
        SourceHandler { deletion_waiters, filters, handler, name, resync }
    }
}

impl<T: 'static> Handler<T> for SourceHandler<T> {
    fn handle(&mut self, event: Event<T>) {
        self.deletion_waiters.notify(&event);
        self.filters.observe(&event);
        let Some(handler) = &mut self.handler else { return };
        let accepted = self.filters.accept(&event);
        tracing::trace!(handler = self.name, key = %event.key(), event = event_name(&event), accepted, "event received");
        if accepted {
            handler.handle(event);
        }
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn options(&self) -> HandlerOptions {
        let options = self.handler.as_ref().map(|handler| handler.options()).unwrap_or_default();
        match self.resync {
            Some(period) => options.resync(period),
            None => options,
        }
    }
}
