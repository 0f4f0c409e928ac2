//! [`ServiceAddresses`]: the addresses and ports of all Services.
//!
//! A write of a Service must know what the others have. The index follows the history of the store instead of being told of
//! each write: it reads the changes since its last use, so deletes, sweeps of namespaces and restored snapshots need no code
//! of their own, and neither a dry run nor a refused commit can leave anything behind. (Commits that a failed disk takes back
//! may: the store then refuses writes until a restart, which makes a new index.) Where the history does not reach back that far
//! (after a start, a restore or a compaction), it reads all Services once.

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::Value;

use crate::kinds::ServiceAllocations;
use crate::store::{Record, Store, Unread};

/// The addresses and ports of all Services, as of one revision.
#[derive(Debug, Default)]
pub(super) struct ServiceAddresses {
    /// All changes up to this revision are read; `None` before the first use.
    revision: Option<u64>,
    /// By the keys of the Services.
    services: HashMap<Box<str>, Allocation>,
    /// How many Services have each address. Stored objects may share one: a restored backup is not validated.
    addresses: HashMap<Box<str>, usize>,
    ports: HashMap<i64, usize>,
}

/// The addresses and ports of one Service, each once.
#[derive(Debug, Default)]
struct Allocation {
    uid: Box<str>,
    addresses: Vec<Box<str>>,
    ports: Vec<i64>,
}

impl ServiceAddresses {
    /// Reads the changes since the last use, and returns what Services other than the one with this key and uid have.
    pub(super) fn of_others(&mut self, store: &Store, table: &str, key: &str, uid: &str) -> OtherServices<'_> {
        let (revision, unread) = store.unread(table, self.revision);
        match unread {
            Unread::Changes(events) => {
                for event in events {
                    self.set(&event.key, event.current.as_deref());
                }
            }
            Unread::Everything(objects) => {
                *self = ServiceAddresses::default();
                for (key, record) in objects {
                    self.set(&key, Some(&record));
                }
            }
        }
        self.revision = Some(revision);
        let all = &*self;
        OtherServices { all, own: all.services.get(key).filter(|own| *own.uid == *uid) }
    }

    /// Replaces what a Service has.
    fn set(&mut self, key: &str, record: Option<&Record>) {
        if let Some(old) = self.services.remove(key) {
            old.addresses.iter().for_each(|address| release(&mut self.addresses, address));
            old.ports.iter().for_each(|port| release(&mut self.ports, port));
        }
        let Some(record) = record else { return };
        let new = Allocation::of(record);
        for address in &new.addresses {
            *self.addresses.entry(address.clone()).or_default() += 1;
        }
        for port in &new.ports {
            *self.ports.entry(*port).or_default() += 1;
        }
        self.services.insert(key.into(), new);
    }
}

fn release<Q, K>(counts: &mut HashMap<K, usize>, key: &Q)
where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Allocation {
    fn of(record: &Record) -> Self {
        let service = record.value();
        let list = |pointer| service.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let addresses = list("/spec/clusterIPs").iter().filter_map(Value::as_str).map(Box::from);
        let ports = list("/spec/ports").iter().filter_map(|port| port.get("nodePort")?.as_i64());
        let health_check = service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64);
        let mut allocation = Allocation {
            uid: record.facts.uid.clone(),
            addresses: addresses.collect(),
            ports: ports.chain(health_check).collect(),
        };
        allocation.addresses.sort_unstable();
        allocation.addresses.dedup();
        allocation.ports.sort_unstable();
        allocation.ports.dedup();
        allocation
    }
}

/// What all Services but one have.
pub(super) struct OtherServices<'a> {
    all: &'a ServiceAddresses,
    own: Option<&'a Allocation>,
}

impl ServiceAllocations for OtherServices<'_> {
    fn is_address_used(&self, address: &str) -> bool {
        let own = self.own.is_some_and(|own| own.addresses.iter().any(|own| **own == *address));
        self.all.addresses.get(address).copied().unwrap_or_default() > usize::from(own)
    }

    fn has_node_port(&self, port: i64) -> bool {
        self.own.is_some_and(|own| own.ports.contains(&port))
    }

    fn is_node_port_used(&self, port: i64) -> bool {
        let own = self.own.is_some_and(|own| own.ports.contains(&port));
        self.all.ports.get(&port).copied().unwrap_or_default() > usize::from(own)
    }
}
