//! Services and what no two of them may have: addresses and ports.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use evenkeel_core::Status;
use serde_json::Value;

use super::{ApiEngine, object};
use crate::registry::Resource;
use crate::store::{At, Record, Span};
use crate::{field, kinds};

impl ApiEngine {
    /// Writers of Services take turns, from the choice of an address to its storing.
    pub(super) fn one_service_at_a_time(&self, resource: &Resource) -> Option<MutexGuard<'_, ()>> {
        is_service(resource).then(|| self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives a Service addresses and ports that no other one has.
    pub(super) fn assign_addresses(&self, resource: &Resource, service: &mut Value) -> Result<(), Status> {
        let uid = object::text(service, "uid").to_owned();
        let others =
            self.store.list(&resource.storage, Span::default(), At::Latest, |_, record| *record.facts.uid != uid);
        let ledger = Ledger::of(others.map(|page| page.records).unwrap_or_default());
        kinds::assign_service_addresses(service, &ledger)
            .map_err(|error| field::invalid(&resource.group, &resource.kind, object::text(service, "name"), &[error]))
    }
}

/// Whether this is the resource of Services.
pub(super) fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "services"
}

/// The addresses and ports that Services have.
#[derive(Default)]
struct Ledger {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Ledger {
    fn of(services: Vec<Arc<Record>>) -> Self {
        let mut ledger = Ledger::default();
        for service in services.iter().map(|record| record.value()) {
            let list = |pointer| service.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            ledger.addresses.extend(list("/spec/clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned));
            ledger.ports.extend(list("/spec/ports").iter().filter_map(|port| port.get("nodePort")?.as_i64()));
            ledger.ports.extend(service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64));
        }
        ledger
    }
}

impl kinds::ServiceLedger for Ledger {
    fn address_taken(&self, address: &str) -> bool {
        self.addresses.contains(address)
    }

    fn node_port_taken(&self, port: i64) -> bool {
        self.ports.contains(&port)
    }
}
