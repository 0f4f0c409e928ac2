//! The same object in another version of its resource.
//!
//! Custom resources without a conversion webhook differ in `apiVersion` alone; the few built-in kinds that are served in
//! more than one form know how to change it.

use serde_json::Value;

use crate::kinds;
use crate::registry::Resource;

/// A stored object as this resource shows it.
pub(super) fn to_version(mut object: Value, resource: &Resource) -> Value {
    set_version(&mut object, resource, &resource.api_version());
    object
}

/// An object of this resource in the version in which it is stored.
pub(super) fn to_storage(mut object: Value, resource: &Resource) -> Value {
    match (&resource.custom, resource.group.as_str(), resource.kind.as_str()) {
        (Some(custom), group, _) => {
            let version = format!("{group}/{}", custom.storage_version);
            set_version(&mut object, resource, &version);
        }
        (None, "events.k8s.io", _) => set_version(&mut object, resource, "v1"),
        (None, "autoscaling", "HorizontalPodAutoscaler") => set_version(&mut object, resource, "autoscaling/v2"),
        _ => {}
    }
    object
}

fn set_version(object: &mut Value, resource: &Resource, version: &str) {
    if resource.custom.is_none() {
        kinds::convert(&resource.kind, object, version);
    } else if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), version.into());
    }
}
