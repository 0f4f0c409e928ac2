//! [`ViewEvent`]: a notification with the views of its objects.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::definition::ViewDefinition;
use super::error::ViewError;
use crate::{Event, Handler};

/// A notification, and the values of its objects in a [`View`](super::View).
#[non_exhaustive]
pub struct ViewEvent<K, V> {
    /// The notification.
    pub event: Event<K>,
    /// The value before the change: of the old state of an update, and of the last known state of a deleted object.
    pub old: Option<Arc<V>>,
    /// The value after the change: of an added object, and of the new state of an update.
    pub new: Option<Arc<V>>,
    /// Why `new`, or else `old`, is missing although there is such a state.
    pub error: Option<Arc<ViewError>>,
}

impl<K, V: Send + Sync + 'static> ViewEvent<K, V> {
    fn new(event: Event<K>, view: &ViewDefinition<V>) -> Self {
        let (old, new) = match &event {
            Event::Add { object, .. } => (None, Some(object)),
            Event::Update { old, new } => (Some(old), Some(new)),
            Event::Delete(deleted) => (deleted.object(), None),
        };
        let (old, new) = (old.map(|object| view.of(object)), new.map(|object| view.of(object)));
        let failed = [&new, &old].into_iter().flatten().find_map(|value| value.as_ref().err());
        let error = failed.map(Arc::clone);
        ViewEvent { old: old.and_then(Result::ok), new: new.and_then(Result::ok), error, event }
    }
}

impl<K, V> fmt::Debug for ViewEvent<K, V> {
    /// Never prints the values: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewEvent").field("key", self.event.key()).field("error", &self.error).finish_non_exhaustive()
    }
}

/// A handler of [`ViewEvent`]s.
pub(super) struct ViewHandler<V, F> {
    pub(super) definition: Arc<ViewDefinition<V>>,
    pub(super) handle: F,
}

impl<K, V, F> Handler<K> for ViewHandler<V, F>
where
    V: Send + Sync + 'static,
    F: FnMut(ViewEvent<K, V>) + Send + 'static,
{
    fn handle(&mut self, event: Event<K>) {
        (self.handle)(ViewEvent::new(event, &self.definition));
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("view handler")
    }
}
