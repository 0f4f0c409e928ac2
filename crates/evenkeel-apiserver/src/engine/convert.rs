//! Converts objects between the versions of their resource.
//!
//! Versions of a custom resource differ in `apiVersion` alone: conversion webhooks are not called. The few built-in kinds
//! that are served in more than one form have conversions of their own.

use serde_json::Value;

use crate::kinds;
use crate::registry::{Resource, group_version};

/// Converts a stored object to the version of this resource.
pub(crate) fn to_version(mut object: Value, resource: &Resource) -> Value {
    set_version(&mut object, resource, &resource.api_version());
    object
}

/// Converts an object of this resource to the version in which it is stored.
pub(crate) fn to_storage(mut object: Value, resource: &Resource) -> Value {
    let (group, version) = resource.storage_version();
    if (group, version) != (resource.group.as_str(), resource.version.as_str()) || resource.custom.is_some() {
        set_version(&mut object, resource, &group_version(group, version));
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
