//! [`Object`]: a type that can be written to an API server.

use std::borrow::Cow;

use kube_core::Resource;
use serde::Serialize;
use serde_json::{Map, Value};

/// A type that can be sent: every type of k8s-openapi, every derived custom resource, and
/// [`Unstructured`](super::Unstructured).
pub trait Object: Serialize {
    /// Returns the object's name; `None` if it has none yet.
    fn name(&self) -> Option<Cow<'_, str>>;

    /// Returns the object's namespace; `None` if it has none.
    fn namespace(&self) -> Option<Cow<'_, str>>;

    /// Returns whether it has `managedFields`, which a server refuses to apply.
    fn has_managed_fields(&self) -> bool;
}

impl<K: Resource + Serialize> Object for K {
    fn name(&self) -> Option<Cow<'_, str>> {
        self.meta().name.as_deref().filter(|name| !name.is_empty()).map(Cow::Borrowed)
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        self.meta().namespace.as_deref().filter(|namespace| !namespace.is_empty()).map(Cow::Borrowed)
    }

    fn has_managed_fields(&self) -> bool {
        self.meta().managed_fields.as_ref().is_some_and(|fields| !fields.is_empty())
    }
}

/// Returns the object with this name, which servers require in the body of an apply. `None` if it has one already, or is not a JSON
/// object.
pub(super) fn with_name<T: Object + ?Sized>(object: &T, name: &str) -> Option<Value> {
    if object.name().is_some() {
        return None;
    }
    let mut value = serde_json::to_value(object).ok()?;
    let metadata = value.as_object_mut()?.entry("metadata").or_insert_with(|| Map::new().into());
    metadata.as_object_mut()?.insert("name".to_owned(), name.into());
    Some(value)
}
