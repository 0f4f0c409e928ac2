//! [`HandlerFuncs`]: a handler of up to three closures.

use std::borrow::Cow;
use std::fmt;

use evenkeel_core::Obj;

use super::{DEFAULT_NAME, Handler};
use crate::{Deleted, Event};

/// A handler of up to three closures, one for each kind of event. Events without a closure are ignored.
///
/// ```
/// use evenkeel_cache::HandlerFuncs;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let handler = HandlerFuncs::<Pod>::new()
///     .on_add(|pod, initial| println!("{} (initial: {initial})", pod.key()))
///     .on_update(|old, new| println!("{} -> {}", old.resource_version(), new.resource_version()))
///     .on_delete(|deleted| println!("{} deleted", deleted.key()));
/// # drop(handler);
/// ```
pub struct HandlerFuncs<K> {
    add: Option<Box<OnAdd<K>>>,
    update: Option<Box<OnUpdate<K>>>,
    delete: Option<Box<OnDelete<K>>>,
}

type OnAdd<K> = dyn FnMut(Obj<K>, bool) + Send;
type OnUpdate<K> = dyn FnMut(Obj<K>, Obj<K>) + Send;
type OnDelete<K> = dyn FnMut(Deleted<K>) + Send;

impl<K> HandlerFuncs<K> {
    /// Returns a handler that ignores everything.
    pub fn new() -> Self {
        HandlerFuncs { add: None, update: None, delete: None }
    }

    /// Sets the function for added objects. Its second argument is [`Event::Add::initial`].
    pub fn on_add<F: FnMut(Obj<K>, bool) + Send + 'static>(mut self, call: F) -> Self {
        self.add = Some(Box::new(call));
        self
    }

    /// Sets the function for updated objects: old and new state, which are equal after a resync.
    pub fn on_update<F: FnMut(Obj<K>, Obj<K>) + Send + 'static>(mut self, call: F) -> Self {
        self.update = Some(Box::new(call));
        self
    }

    /// Sets the function for deleted objects.
    pub fn on_delete<F: FnMut(Deleted<K>) + Send + 'static>(mut self, call: F) -> Self {
        self.delete = Some(Box::new(call));
        self
    }
}

impl<K> Default for HandlerFuncs<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: 'static> Handler<K> for HandlerFuncs<K> {
    fn handle(&mut self, event: Event<K>) {
        match event {
            Event::Add { object, initial } => {
                if let Some(add) = &mut self.add {
                    add(object, initial);
                }
            }
            Event::Update { old, new } => {
                if let Some(update) = &mut self.update {
                    update(old, new);
                }
            }
            Event::Delete(deleted) => {
                if let Some(delete) = &mut self.delete {
                    delete(deleted);
                }
            }
        }
    }

    /// Returns which closures there are, such as `on_add+on_delete`.
    fn name(&self) -> Cow<'_, str> {
        let closures = [
            ("on_add", self.add.is_some()),
            ("on_update", self.update.is_some()),
            ("on_delete", self.delete.is_some()),
        ];
        let names: Vec<_> = closures.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        match *names {
            [] => Cow::Borrowed(DEFAULT_NAME),
            [one] => Cow::Borrowed(one),
            _ => Cow::Owned(names.join("+")),
        }
    }
}

impl<K: 'static> fmt::Debug for HandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerFuncs").field(&self.name()).finish()
    }
}
