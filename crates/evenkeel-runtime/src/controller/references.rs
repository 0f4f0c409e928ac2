//! [`Reference`]: a reference in an object, and the index of the objects that refer to another one.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_cache::{Event, Handler, HandlerOptions};
use evenkeel_core::{Obj, ObjectKey};
use evenkeel_queue::WorkQueue;

use crate::enqueue::Enqueue;

/// A reference in an object of a controller's kind: see [`Controller::references`](super::Controller::references).
///
/// A string is the name of an object in the namespace of the object that refers to it, or of a cluster-scoped object. An
/// [`ObjectKey`] is a reference to any namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference(ReferenceForm);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ReferenceForm {
    Name(String),
    Key(ObjectKey),
}

impl From<String> for Reference {
    fn from(name: String) -> Self {
        Reference(ReferenceForm::Name(name))
    }
}

impl From<&str> for Reference {
    fn from(name: &str) -> Self {
        Reference::from(name.to_owned())
    }
}

impl From<ObjectKey> for Reference {
    fn from(key: ObjectKey) -> Self {
        Reference(ReferenceForm::Key(key))
    }
}

impl Reference {
    /// Returns the key of the object that `from` refers to.
    fn resolve(self, from: &ObjectKey, is_namespaced: bool) -> Option<ObjectKey> {
        match (self.0, from.namespace()) {
            (ReferenceForm::Key(key), _) => Some(key),
            // An empty name is a reference that is not set.
            (ReferenceForm::Name(name), _) if name.is_empty() => None,
            (ReferenceForm::Name(name), _) if !is_namespaced => Some(ObjectKey::cluster(&name)),
            (ReferenceForm::Name(name), Some(namespace)) => Some(ObjectKey::namespaced(namespace, &name)),
            (ReferenceForm::Name(name), None) => {
                tracing::warn!(%from, name, "reference without a namespace ignored; return an `ObjectKey`");
                None
            }
        }
    }
}

/// The objects that refer to others, by the key of what they refer to.
#[derive(Default)]
pub(super) struct ReferenceIndex(Mutex<ReferenceMaps>);

#[derive(Default)]
struct ReferenceMaps {
    referrers: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    targets: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl ReferenceIndex {
    fn maps(&self) -> MutexGuard<'_, ReferenceMaps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a function that keeps the index up to date with the events of the objects that refer to others.
    pub(super) fn updater<K: 'static, I>(
        self: &Arc<Self>,
        is_namespaced: bool,
        references: impl Fn(&Obj<K>) -> I + Send + 'static,
    ) -> impl FnMut(&Event<K>) + Send + 'static
    where
        I: IntoIterator,
        I::Item: Into<Reference>,
    {
        let index = Arc::clone(self);
        move |event| {
            let targets = match event {
                Event::Add { object, .. } | Event::Update { new: object, .. } => {
                    let found = references(object).into_iter();
                    found.filter_map(|reference| reference.into().resolve(object.key(), is_namespaced)).collect()
                }
                Event::Delete(_) => BTreeSet::new(),
            };
            index.maps().set(event.key(), targets);
        }
    }

    /// Returns the objects that refer to this one, sorted.
    fn referrers(&self, target: &ObjectKey) -> Vec<ObjectKey> {
        self.maps().referrers.get(target).into_iter().flatten().cloned().collect()
    }

    /// Returns a handler that enqueues the objects that refer to the object of the event.
    pub(super) fn enqueue(self: &Arc<Self>, queue: &WorkQueue<ObjectKey>) -> Enqueue<ObjectKey, Referrers> {
        Enqueue::new(queue, Referrers(Arc::clone(self)))
    }
}

impl ReferenceMaps {
    /// Replaces the references of an object.
    fn set(&mut self, from: &ObjectKey, targets: BTreeSet<ObjectKey>) {
        if self.targets.get(from).is_some_and(|known| *known == targets) {
            return;
        }
        for old in self.targets.remove(from).into_iter().flatten().filter(|old| !targets.contains(old)) {
            if let Some(referrers) = self.referrers.get_mut(&old) {
                referrers.remove(from);
                if referrers.is_empty() {
                    self.referrers.remove(&old);
                }
            }
        }
        for target in &targets {
            self.referrers.entry(target.clone()).or_default().insert(from.clone());
        }
        if !targets.is_empty() {
            self.targets.insert(from.clone(), targets);
        }
    }
}

/// Maps an object to the keys of the objects that refer to it.
pub(super) struct Referrers(Arc<ReferenceIndex>);

impl<T> Handler<T> for Enqueue<ObjectKey, Referrers> {
    fn handle(&mut self, event: Event<T>) {
        // The key is enough, so a tombstone without the last state of its object has the same effect.
        let referrers = self.keys().0.referrers(event.key());
        self.add(&event, referrers);
    }

    fn name(&self) -> Cow<'_, str> {
        self.name_of(format_args!("references"))
    }

    fn options(&self) -> HandlerOptions {
        self.handler_options()
    }
}

#[cfg(test)]
mod tests;
