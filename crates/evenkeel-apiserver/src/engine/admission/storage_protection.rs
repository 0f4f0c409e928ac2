//! StorageObjectInUseProtection: finalizers hold claims, volumes and classes of attributes while they are used (ADM-011).
//! The protection controller removes them (PVB-006).

use serde_json::Value;

use super::{AdmissionPlugin, AdmissionWrite};
use crate::engine::controllers::protection::PROTECTED;
use crate::engine::request_error::RequestError;
use crate::engine::{ApiEngine, object};

pub(super) struct StorageObjectInUseProtection;

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        PROTECTED.iter().any(|(store, _)| write.creates(store))
    }

    fn mutate(
        &self,
        _: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some((_, finalizer)) = PROTECTED.iter().find(|(store, _)| write.is_of(store)) else { return Ok(()) };
        let mut finalizers: Vec<String> = object::finalizers(object).map(str::to_owned).collect();
        if !finalizers.iter().any(|present| present == finalizer) {
            finalizers.push((*finalizer).to_owned());
            object::set_finalizers(object, finalizers);
        }
        Ok(())
    }
}
