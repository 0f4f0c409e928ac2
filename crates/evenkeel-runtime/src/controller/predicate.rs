//! Which events are worth a reconcile: [`Predicate`].
//!
//! ```
//! use evenkeel_cache::Event;
//! use evenkeel_runtime::controller::predicate::{and, generation_changed, labels_changed, not, or};
//! use k8s_openapi::api::apps::v1::Deployment;
//!
//! let relevant = or(generation_changed(), labels_changed());
//! let deletions = |event: &Event<Deployment>| matches!(event, Event::Delete(_));
//! let quiet = and(relevant, not(deletions));
//! # fn check(_: impl evenkeel_runtime::controller::predicate::Predicate<Deployment>) {}
//! # check(quiet);
//! ```
//!
//! Those that ask whether something has changed look at updates alone; whatever comes or goes passes. An update that changes
//! nothing at all, such as a resync, has changed nothing for any of them.

use std::sync::Arc;

use evenkeel_cache::Event;
use evenkeel_core::json::JsonValue;
use evenkeel_core::{LabelSelector, Obj};

/// Says which events are worth a reconcile. Every function of an [`Event`] that answers yes or no is one.
///
/// It is asked by the task that fills the queue, and must not block it.
pub trait Predicate<K>: Send + Sync + 'static {
    /// Whether this event counts.
    fn accepts(&self, event: &Event<K>) -> bool;
}

impl<K, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn accepts(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

/// Made by [`and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// Both must accept. The second is not asked about what the first does not accept.
pub const fn and<A, B>(first: A, second: B) -> And<A, B> {
    And(first, second)
}

/// Made by [`or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// One must accept. The second is not asked about what the first accepts.
pub const fn or<A, B>(first: A, second: B) -> Or<A, B> {
    Or(first, second)
}

/// Made by [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<A>(A);

/// ChangedField this one accepts is not accepted, and the other way round.
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

/// Accepts updates in which something has changed. Made by the functions of [this module](self).
#[derive(Clone, Copy, Debug)]
pub struct FieldChanged(ChangedField);

#[derive(Clone, Copy, Debug)]
enum ChangedField {
    Generation,
    Labels,
    Annotations,
    Version,
}

/// Updates that change the generation: what the object is meant to be, but not its status or its metadata. Of a kind that has
/// no generation, no update does.
pub const fn generation_changed() -> FieldChanged {
    FieldChanged(ChangedField::Generation)
}

/// Updates that change the labels.
pub const fn labels_changed() -> FieldChanged {
    FieldChanged(ChangedField::Labels)
}

/// Updates that change the annotations. It looks into the payload of both objects.
pub const fn annotations_changed() -> FieldChanged {
    FieldChanged(ChangedField::Annotations)
}

/// Updates that change anything: not resyncs.
pub const fn resource_version_changed() -> FieldChanged {
    FieldChanged(ChangedField::Version)
}

impl<K> Predicate<K> for FieldChanged {
    fn accepts(&self, event: &Event<K>) -> bool {
        let Event::Update { old, new } = event else { return true };
        match self.0 {
            ChangedField::Generation => old.generation() != new.generation(),
            ChangedField::Labels => !have_same_labels(old, new),
            ChangedField::Annotations => annotations(old) != annotations(new),
            ChangedField::Version => old.resource_version() != new.resource_version(),
        }
    }
}

/// In whatever order they are written.
fn have_same_labels<K>(old: &Obj<K>, new: &Obj<K>) -> bool {
    old.labels().len() == new.labels().len() && old.labels().all(|(key, value)| new.label(key) == Some(value))
}

/// As they are written, which a server does in one order.
fn annotations<K>(object: &Obj<K>) -> Option<JsonValue<'_>> {
    // An object that cannot be read is reported by whoever decodes it.
    object.path("metadata.annotations").ok().flatten().filter(|value| value.json() != "{}")
}

/// Accepts objects by their labels. Made by [`label_selector`].
#[derive(Clone, Debug)]
pub struct LabelsMatch(Arc<LabelSelector>);

/// Objects whose labels match, as they are now, or, if they are gone, as they were.
///
/// An update by which an object ceases to match is not accepted. Who has to know of that asks
/// [`labels_changed`] too.
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
