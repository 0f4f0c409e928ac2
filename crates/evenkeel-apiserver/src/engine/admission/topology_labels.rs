//! PodTopologyLabels: a pod that is assigned to a node gets the node's zone and region as labels.

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite, Operation, text_at};
use crate::engine::ApiEngine;
use crate::engine::object::set_path;
use crate::engine::request_error::RequestError;

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub(super) struct PodTopologyLabels;

impl AdmissionPlugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    /// The labels of a Binding become those of its pod.
    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        is_binding(write) || write.creates("pods")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let name = match is_binding(write) {
            true => text_at(pod, &["target", "name"]),
            false => text_at(pod, &["spec", "nodeName"]),
        };
        let Some(node) = Some(name).filter(|name| !name.is_empty()).and_then(|name| engine.store.get("nodes", name))
        else {
            return Ok(());
        };
        for key in LABELS {
            if let Some(value) = node.facts.label(key) {
                set_path(pod, &["metadata", "labels", key], Some(value.into()));
            }
        }
        Ok(())
    }
}

/// Returns whether the write binds a pod to a node.
fn is_binding(write: &AdmissionWrite<'_>) -> bool {
    write.operation == Operation::Create && write.subresource() == "binding" && write.is_of("pods")
}
