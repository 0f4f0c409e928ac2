//! PersistentVolumeClaimResize: only a claim whose class allows it grows (ADM-012).

use evenkeel_core::quantity::ExactQuantity;
use serde_json::Value;

use super::default_storage_class::annotation;
use super::{AdmissionPlugin, AdmissionWrite, Operation, text_at};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;

const CLAIMS: &str = "persistentvolumeclaims";
const CLASSES: &str = "storageclasses.storage.k8s.io";

pub(super) struct PersistentVolumeClaimResize;

impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.operation == Operation::Update && write.target.scope == WriteScope::Main && write.is_of(CLAIMS)
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let (Some(new), Some(old)) = (object, write.old) else { return Ok(()) };
        if size(new) <= size(old) {
            return Ok(());
        }
        if text_at(old, &["status", "phase"]) != "Bound" {
            return Err(write.forbidden(new, "Only bound persistent volume claims can be expanded"));
        }
        let class = class_of(new);
        let stored = engine.store.get(CLASSES, class).filter(|_| class == class_of(old) && !class.is_empty());
        let is_allowed = stored.is_some_and(|class| class.value()["allowVolumeExpansion"] == true);
        if !is_allowed {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                       support resize";
            return Err(write.forbidden(new, why));
        }
        Ok(())
    }
}

fn size(claim: &Value) -> ExactQuantity {
    text_at(claim, &["spec", "resources", "requests", "storage"]).parse().unwrap_or_default()
}

/// Returns the class of a claim; empty if it has none.
pub(super) fn class_of(claim: &Value) -> &str {
    let annotated = annotation(claim, "volume.beta.kubernetes.io/storage-class");
    annotated.unwrap_or_else(|| text_at(claim, &["spec", "storageClassName"]))
}
