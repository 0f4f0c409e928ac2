//! Services: each gets addresses and ports that no other Service has.

use std::sync::{MutexGuard, PoisonError};

use evenkeel_core::Status;
use serde_json::Value;

use super::{KindHooks, prepare_builtin_create};
use crate::engine::target::key;
use crate::engine::{ApiEngine, object};
use crate::field::{self, FieldError};
use crate::kinds;
use crate::registry::Resource;

#[derive(Debug)]
pub(crate) struct ServiceHooks;

impl KindHooks for ServiceHooks {
    fn serialises_writes(&self) -> bool {
        true
    }

    /// Serialises writers from the choice of an address to its commit.
    fn lock_write<'e>(&self, engine: &'e ApiEngine) -> Option<MutexGuard<'e, ()>> {
        Some(engine.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn prepare_create(&self, engine: &ApiEngine, resource: &Resource, new: &mut Value) -> Result<(), Status> {
        prepare_builtin_create(resource, new);
        assign_addresses(engine, resource, new)
    }

    fn prepare_update(
        &self,
        engine: &ApiEngine,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
    ) -> Result<Vec<FieldError>, Status> {
        kinds::prepare_update(&resource.group, &resource.kind, new, old);
        assign_addresses(engine, resource, new)?;
        Ok(Vec::new())
    }
}

/// Assigns addresses and ports that no other Service has.
fn assign_addresses(engine: &ApiEngine, resource: &Resource, service: &mut Value) -> Result<(), Status> {
    let key = key(Some(object::text(service, "namespace")), object::text(service, "name"));
    let uid = object::text(service, "uid").to_owned();
    let mut index = engine.service_addresses.lock().unwrap_or_else(PoisonError::into_inner);
    let others = index.of_others(&engine.store, &resource.storage, &key, &uid);
    kinds::assign_service_addresses(service, &others)
        .map_err(|error| field::invalid(&resource.group, &resource.kind, object::text(service, "name"), &[error]))
}
