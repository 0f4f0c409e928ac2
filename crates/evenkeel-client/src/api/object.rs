//! What can be written to an API server: [`Object`].

use std::borrow::Cow;

use kube_core::Resource;
use serde::Serialize;

/// An object that can be sent: every type of k8s-openapi, every derived custom resource, and
/// [`Unstructured`](super::Unstructured).
pub trait Object: Serialize {
    /// The object's name; `None` if it has none yet.
    fn name(&self) -> Option<Cow<'_, str>>;

    /// The namespace it says it is in; `None` if it says nothing.
    fn namespace(&self) -> Option<Cow<'_, str>>;

    /// Whether it carries `managedFields`, which a server refuses to apply.
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
