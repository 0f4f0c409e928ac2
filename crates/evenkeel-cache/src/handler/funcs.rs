//! [`HandlerFuncs`]: a handler of up to three closures.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;

use evenkeel_core::Obj;

use super::Handler;
use crate::{Deleted, Event};

/// A handler made of closures, one for each thing that can happen. What has no closure is passed over in silence.
///
/// ```
/// use evenkeel_cache::HandlerFuncs;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let handler = HandlerFuncs::<Pod>::new()
///     .on_add(|pod, initial| println!("{} (there before us: {initial})", pod.key()))
///     .on_update(|old, new| println!("{} -> {}", old.resource_version(), new.resource_version()))
///     .on_delete(|deleted| println!("{} is gone", deleted.key()));
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

/// A closure, and where it was written.
struct Func<F: ?Sized> {
    name: &'static str,
    call: Box<F>,
}

impl<K> HandlerFuncs<K> {
    /// A handler that passes over everything.
    pub fn new() -> Self {
        HandlerFuncs { add: None, update: None, delete: None }
    }

    /// Calls this with every object that comes, and whether it was there before the informer or the handler was.
    pub fn on_add<F: FnMut(Obj<K>, bool) + Send + 'static>(mut self, call: F) -> Self {
        self.add = Some(Func { name: type_name::<F>(), call: Box::new(call) });
        self
    }

    /// Calls this with every object that has changed, or may have: what it was, and what it is.
    pub fn on_update<F: FnMut(Obj<K>, Obj<K>) + Send + 'static>(mut self, call: F) -> Self {
        self.update = Some(Func { name: type_name::<F>(), call: Box::new(call) });
        self
    }

    /// Calls this with every object that is gone.
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

    /// The function or module that all closures stand in, or else their names, joined by `+`.
    fn name(&self) -> Cow<'_, str> {
        let names: Vec<&'static str> = self.names().collect();
        let place = |name: &'static str| name.rsplit_once("::").map(|(place, _)| place);
        let Some(first) = names.first() else {
            return Cow::Borrowed(type_name::<Self>());
        };
        match place(first) {
            Some(shared) if names.iter().all(|name| place(name) == Some(shared)) => Cow::Borrowed(shared),
            _ => Cow::Owned(names.join("+")),
        }
    }
}

impl<K: 'static> fmt::Debug for HandlerFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerFuncs").field(&self.name()).finish()
    }
}
