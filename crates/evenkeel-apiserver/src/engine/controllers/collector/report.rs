//! The event about an owner in another namespace.

use serde_json::json;

use super::graph::{Node, OwnerReference};
use crate::engine::ApiEngine;
use crate::engine::options::WriteOptions;
use crate::engine::target::Writer;
use crate::env::rfc3339;
use crate::kinds;

const COMPONENT: &str = "garbage-collector-controller";
/// The namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

impl ApiEngine {
    /// Creates a Warning event for each reference of an object to an owner in another namespace (GCX-011).
    pub(super) fn report_stray_references(&self, node: &Node, references: &[OwnerReference]) {
        let registry = self.registry();
        let Some(events) = registry.lookup("", "v1", "events") else { return };
        let Some(resource) = registry.resources().find(|resource| resource.storage == node.table) else { return };
        let namespace = node.namespace().unwrap_or_default();
        let event_namespace = node.namespace().unwrap_or(DEFAULT_NAMESPACE);
        let wall = self.env.wall();
        for reference in references {
            let OwnerReference { api_version, kind, name, uid, .. } = reference;
            let owner = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]");
            let suffix = wall.as_nanosecond().unsigned_abs() ^ u128::from(self.env.random() >> 32);
            let mut event = json!({
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {
                    "name": format!("{}.{suffix:x}", node.name()),
                    "namespace": event_namespace,
                },
                "involvedObject": {
                    "kind": resource.kind, "apiVersion": resource.api_version(), "name": node.name(),
                    "namespace": namespace, "uid": *node.uid,
                },
                "type": "Warning",
                "reason": "OwnerRefInvalidNamespace",
                "message": format!("ownerRef {owner} does not exist in namespace {namespace:?}"),
                "source": {"component": COMPONENT},
                "reportingComponent": COMPONENT,
                "reportingInstance": "",
                "firstTimestamp": rfc3339(wall),
                "lastTimestamp": rfc3339(wall),
                "count": 1,
            });
            kinds::default_object("", "v1", "Event", &mut event);
            let options = WriteOptions::default();
            let created = self.create_object(events, Some(event_namespace), event, Writer::server(&options));
            if let Err(error) = created {
                tracing::debug!(key = &*node.key, %error, "event about an owner reference not created");
            }
        }
    }
}
