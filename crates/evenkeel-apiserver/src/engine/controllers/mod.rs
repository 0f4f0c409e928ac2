//! The controllers inside the server: those without which namespaces, definitions, volumes and claims would never be
//! removed, default ServiceAccounts, the status of policies, garbage collection, the usage of quotas, and the expiry of events.

mod collector;
pub(crate) mod definitions;
mod events;
pub(crate) mod namespaces;
mod policy_status;
pub(crate) mod protection;
mod quotas;
mod service_accounts;
mod sweep;

pub(super) use collector::OwnerGraph;
pub(super) use sweep::{NamespaceSweep, PendingWork};
