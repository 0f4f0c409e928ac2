//! Services: each gets addresses and ports that no other Service has.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use evenkeel_core::Status;
use serde_json::Value;

use super::{KindHooks, prepare_builtin_create};
use crate::engine::{ApiEngine, object};
use crate::field::{self, FieldError};
use crate::kinds;
use crate::registry::Resource;
use crate::store::{At, Record, Span};

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
    let uid = object::text(service, "uid").to_owned();
    let others =
        engine.store.list(&resource.storage, Span::default(), At::Latest, |_, record| *record.facts.uid != uid);
    let assigned = AssignedAddresses::of(others.map(|page| page.records).unwrap_or_default());
    kinds::assign_service_addresses(service, &assigned)
        .map_err(|error| field::invalid(&resource.group, &resource.kind, object::text(service, "name"), &[error]))
}

/// The addresses and ports of all Services.
#[derive(Default)]
struct AssignedAddresses {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl AssignedAddresses {
    fn of(services: Vec<Arc<Record>>) -> Self {
        let mut assigned = AssignedAddresses::default();
        for service in services.iter().map(|record| record.value()) {
            let list = |pointer| service.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            assigned.addresses.extend(list("/spec/clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned));
            assigned.ports.extend(list("/spec/ports").iter().filter_map(|port| port.get("nodePort")?.as_i64()));
            assigned.ports.extend(service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64));
        }
        assigned
    }
}

impl kinds::ServiceAllocations for AssignedAddresses {
    fn is_address_used(&self, address: &str) -> bool {
        self.addresses.contains(address)
    }

    fn is_node_port_used(&self, port: i64) -> bool {
        self.ports.contains(&port)
    }
}
