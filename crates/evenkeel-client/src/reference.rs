//! [`ToReference`]: references to objects, as in Events.

use evenkeel_core::Obj;
use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::Resource;

use crate::rest::List;

/// A value that can be referenced: objects and lists from the server, and references themselves. Use
/// [`typed_reference`] for a value of a Rust type.
///
/// ```
/// # fn example(pod: &evenkeel_core::Obj<k8s_openapi::api::core::v1::Pod>) {
/// use evenkeel_client::ToReference;
/// use evenkeel_client::reference::part_reference;
///
/// let about = part_reference(&pod.to_reference(), "spec.containers{web}");
/// # }
/// ```
pub trait ToReference {
    /// Returns the reference: kind, API version, resource version; for an object also namespace, name and uid. Unknown
    /// fields are empty.
    fn to_reference(&self) -> ObjectReference;
}

impl<K> ToReference for Obj<K> {
    /// Kind and API version are those of the object, or else those of its resource.
    fn to_reference(&self) -> ObjectReference {
        ObjectReference {
            kind: known(self.kind()),
            api_version: known(self.api_version()),
            namespace: self.key().namespace().and_then(known),
            name: known(self.key().name()),
            uid: known(self.uid()),
            resource_version: known(self.resource_version()),
            field_path: None,
        }
    }
}

impl<K> ToReference for List<K> {
    fn to_reference(&self) -> ObjectReference {
        ObjectReference {
            kind: known(&self.meta.kind),
            api_version: known(&self.meta.api_version),
            resource_version: known(self.meta.resource_version.as_str()),
            ..ObjectReference::default()
        }
    }
}

impl ToReference for ObjectReference {
    fn to_reference(&self) -> ObjectReference {
        self.clone()
    }
}

/// Returns a reference to a value of a Rust type, whose kind the type knows.
pub fn typed_reference<K>(object: &K) -> ObjectReference
where
    K: Resource,
    K::DynamicType: Default,
{
    let (kind, meta) = (K::DynamicType::default(), object.meta());
    ObjectReference {
        kind: known(&K::kind(&kind)),
        api_version: known(&K::api_version(&kind)),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// Returns a reference to a part of a referenced object, such as `spec.containers{web}`.
pub fn part_reference(whole: &ObjectReference, field_path: &str) -> ObjectReference {
    ObjectReference { field_path: known(field_path), ..whole.clone() }
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
