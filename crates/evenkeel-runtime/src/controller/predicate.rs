//! [`Predicate`]: decides which events enqueue a key. controller-runtime's `predicate` package.
//!
//! ```
//! use evenkeel_cache::Event;
//! use evenkeel_runtime::controller::predicate::{and, generation_changed, labels_changed, not, or};
//! use k8s_openapi::api::apps::v1::Deployment;
//!
//! let relevant = or(generation_changed(), labels_changed());
//! let deletions = |event: &Event<Deployment>| matches!(event, Event::Delete(_));
//! let filtered = and(relevant, not(deletions));
//! # fn check(_: impl evenkeel_runtime::controller::predicate::Predicate<Deployment>) {}
//! # check(filtered);
//! ```
//!
//! The `…_changed` predicates filter updates only: they accept every add and every delete. They reject resyncs, because a resync
//! changes nothing.

use std::sync::Arc;

use evenkeel_cache::Event;
use evenkeel_core::json::JsonValue;
use evenkeel_core::{LabelSelector, Obj};

/// Decides which events enqueue a key. Implemented by every `Fn(&Event<K>) -> bool`.
///
/// Predicates run in the task that fills the queue, and must not block it.
pub trait Predicate<K>: Send + Sync + 'static {
    /// Returns whether this event enqueues a key.
    fn accepts(&self, event: &Event<K>) -> bool;
}

impl<K, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn accepts(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

/// Returned by [`and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// Accepts events that both predicates accept. Does not call the second one if the first one rejects.
pub const fn and<A, B>(first: A, second: B) -> And<A, B> {
    And(first, second)
}

/// Returned by [`or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// Accepts events that one of the predicates accepts. Does not call the second one if the first one accepts.
pub const fn or<A, B>(first: A, second: B) -> Or<A, B> {
    Or(first, second)
}

/// Returned by [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<A>(A);

/// Accepts events that the predicate rejects.
pub const fn not<A>(predicate: A) -> Not<A> {
    Not(predicate)
}

impl<K, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<A, B> {
    fn accepts(&self, event: &Event<K>) -> bool {
        self.0.accepts(event) && self.1.accepts(event)
    }
}

impl<K, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<A, B> {
    fn accepts(&self, event: &Event<K>) -> bool {
        self.0.accepts(event) || self.1.accepts(event)
    }
}

impl<K, A: Predicate<K>> Predicate<K> for Not<A> {
    fn accepts(&self, event: &Event<K>) -> bool {
        !self.0.accepts(event)
    }
}

/// Accepts updates that change a part of the object. Returned by the `…_changed` functions of [this module](self).
#[derive(Clone, Copy, Debug)]
pub struct FieldChanged(ChangedField);

#[derive(Clone, Copy, Debug)]
enum ChangedField {
    Generation,
    Labels,
    Annotations,
    ResourceVersion,
}

/// Accepts updates that change the generation: the spec, but not the status or the metadata. Rejects all updates of a kind
/// without generations.
pub const fn generation_changed() -> FieldChanged {
    FieldChanged(ChangedField::Generation)
}

/// Accepts updates that change the labels.
pub const fn labels_changed() -> FieldChanged {
    FieldChanged(ChangedField::Labels)
}

/// Accepts updates that change the annotations. Reads the payload of both objects.
pub const fn annotations_changed() -> FieldChanged {
    FieldChanged(ChangedField::Annotations)
}

/// Accepts updates that change anything. Rejects resyncs.
pub const fn resource_version_changed() -> FieldChanged {
    FieldChanged(ChangedField::ResourceVersion)
}

impl<K> Predicate<K> for FieldChanged {
    fn accepts(&self, event: &Event<K>) -> bool {
        let Event::Update { old, new } = event else { return true };
        match self.0 {
            ChangedField::Generation => old.generation() != new.generation(),
            ChangedField::Labels => !have_same_labels(old, new),
            ChangedField::Annotations => annotations(old) != annotations(new),
            ChangedField::ResourceVersion => old.resource_version() != new.resource_version(),
        }
    }
}

/// Compares labels independently of their order.
fn have_same_labels<K>(old: &Obj<K>, new: &Obj<K>) -> bool {
    old.labels().len() == new.labels().len() && old.labels().all(|(key, value)| new.label(key) == Some(value))
}

/// Returns the annotations in the order of the payload. A server always writes them in the same order.
fn annotations<K>(object: &Obj<K>) -> Option<JsonValue<'_>> {
    // An object that cannot be decoded is reported where it is decoded.
    object.path("metadata.annotations").ok().flatten().filter(|value| value.json() != "{}")
}

/// Accepts objects by their labels. Returned by [`label_selector`].
#[derive(Clone, Debug)]
pub struct LabelsMatch(Arc<LabelSelector>);

/// Accepts events of objects whose labels match: the current labels, or the last known ones of a deleted object.
///
/// Rejects an update after which the object does not match any more. Combine it with [`labels_changed`] to receive that update.
pub fn label_selector(selector: LabelSelector) -> LabelsMatch {
    LabelsMatch(Arc::new(selector))
}

impl<K> Predicate<K> for LabelsMatch {
    fn accepts(&self, event: &Event<K>) -> bool {
        event.object().is_some_and(|object| self.0.matches(|key| object.label(key)))
    }
}

#[cfg(test)]
mod tests;
