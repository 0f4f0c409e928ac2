//! The controllers inside the server: those without which namespaces and definitions would never be removed, default
//! ServiceAccounts, garbage collection, and the expiry of events.

mod collector;
pub(crate) mod definitions;
mod events;
pub(crate) mod namespaces;
mod service_accounts;
mod sweep;

pub(super) use collector::OwnerGraph;
pub(super) use sweep::{NamespaceSweep, PendingWork};
