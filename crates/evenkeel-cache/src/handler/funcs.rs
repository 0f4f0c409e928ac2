//! [`HandlerFuncs`]: a handler of up to three closures.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;

use evenkeel_core::Obj;

use super::Handler;
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
    add: Option<Func<OnAdd<K>>>,
    update: Option<Func<OnUpdate<K>>>,
    delete: Option<Func<OnDelete<K>>>,
}

type OnAdd<K> = dyn FnMut(Obj<K>, bool) + Send;
type OnUpdate<K> = dyn FnMut(Obj<K>, Obj<K>) + Send;
type OnDelete<K> = dyn FnMut(Deleted<K>) + Send;

/// A closure and its type name.
struct Func<F: ?Sized> {
    name: &'static str,
    call: Box<F>,
}

impl<K> HandlerFuncs<K> {
    /// Returns a handler that ignores everything.
    pub fn new() -> Self {
        HandlerFuncs { add: None, update: None, delete: None }
    }

    /// Sets the function for added objects. Its second argument is [`Event::Add::initial`].
    pub fn on_add<F: FnMut(Obj<K>, bool) + Send + 'static>(mut self, call: F) -> Self {
        self.add = Some(Func { name: type_name::<F>(), call: Box::new(call) });
        self
    }

    /// Sets the function for updated objects: old and new state, which are equal after a resync.
    pub fn on_update<F: FnMut(Obj<K>, Obj<K>) + Send + 'static>(mut self, call: F) -> Self {
        self.update = Some(Func { name: type_name::<F>(), call: Box::new(call) });
        self
    }

    /// Sets the function for deleted objects.
    pub fn on_delete<F: FnMut(Deleted<K>) + Send + 'static>(mut self, call: F) -> Self {
        self.delete = Some(Func { name: type_name::<F>(), call: Box::new(call) });
        self
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let add = self.add.as_ref().map(|func| func.name);
        let update = self.update.as_ref().map(|func| func.name);
        let delete = self.delete.as_ref().map(|func| func.name);
        [add, update, delete].into_iter().flatten()
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
                    (add.call)(object, initial);
                }
            }
            Event::Update { old, new } => {
                if let Some(update) = &mut self.update {
                    (update.call)(old, new);
                }
            }
            Event::Delete(deleted) => {
                if let Some(delete) = &mut self.delete {
                    (delete.call)(deleted);
                }
            }
        }
    }

    /// Returns the function or module that contains all closures, or else their names, joined by `+`.
    fn name(&self) -> Cow<'_, str> {
        let names: Vec<&'static str> = self.names().collect();
        let parent = |name: &'static str| name.rsplit_once("::").map(|(parent, _)| parent);
        let Some(first) = names.first() else {
            return Cow::Borrowed(type_name::<Self>());
        };
        match parent(first) {
            Some(shared) if names.iter().all(|name| parent(name) == Some(shared)) => Cow::Borrowed(shared),
            _ => Cow::Owned(names.join("+")),
        }
    }
}

impl<K: 'static> fmt::Debug for HandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerFuncs").field(&self.name()).finish()
    }
}
