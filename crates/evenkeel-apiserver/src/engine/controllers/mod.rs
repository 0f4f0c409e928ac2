//! The controllers inside the server: those without which namespaces and definitions would never be removed, default
//! ServiceAccounts, and the expiry of events.

pub(crate) mod definitions;
mod events;
pub(crate) mod namespaces;
mod service_accounts;
mod sweep;

pub(super) use sweep::{NamespaceSweep, PendingSweeps};
