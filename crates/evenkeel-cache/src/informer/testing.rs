//! Shared helpers of this module's tests.

use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo, Untyped};

use crate::{Deleted, Event, Object};

pub(super) fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::new("", "v1", "Pod", "pods", true))
}

/// A pod of this name and version.
pub(super) fn object(name: &str, version: u64) -> Object {
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}}}}"#);
    Obj::from_json(&pods(), json).unwrap()
}

/// An event in short: `add a@1`, `initial a@1`, `update a@1->2`, `delete a@3`, `missed a@2`, `left a@2`.
pub(super) fn tell(event: &Event<Untyped>) -> String {
    let version = |object: &Object| object.resource_version().to_owned();
    let key = event.key();
    match event {
        Event::Add { object, initial: false } => format!("add {key}@{}", version(object)),
        Event::Add { object, initial: true } => format!("initial {key}@{}", version(object)),
        Event::Update { old, new } => format!("update {key}@{}->{}", version(old), version(new)),
        Event::Delete(deleted) => {
            let word = match deleted {
                Deleted::Observed(_) => "delete",
                Deleted::Missed { .. } => "missed",
                Deleted::OutOfScope { .. } => "left",
                Deleted::Moved { .. } => "moved",
            };
            format!("{word} {key}@{}", deleted.object().map(version).unwrap_or_default())
        }
    }
}
