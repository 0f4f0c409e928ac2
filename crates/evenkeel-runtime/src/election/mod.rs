//! Leader election: one leader among many replicas.
//!
//! - [`LeaderElector`]: campaigns for a lease and runs a future while it leads.
//! - [`Lease`]: one term of leadership: whether it is valid, when it ends, and its fencing token.
//! - [`Lock`] and [`LeaseLock`]: the storage of the leader record.
//! - [`LeaseCandidate`]: a candidate in a coordinated election, in which the API server chooses.
//! - [`ElectionHealth`]: a health check.
//! - [`metrics`]: metrics under client-go's names.
//!
//! # How it works
//!
//! The record names the leader and its lease duration. The leader renews the record. A candidate may replace the
//! record once it has seen it unchanged for the lease duration *by its own clock*, and only if the stored version is
//! still the one it saw. Timestamps in the record are never compared with a clock. Clocks may disagree; they only have
//! to run at about the same rate.
//!
//! ```text
//! leader:     sent ───────────────────────────────► lost() ──── grace ──► dropped
//!              │            renew deadline (10 s)                2 s         │
//!              ▼ takes effect, some time later                               │
//! record:      ●                                                             │
//!                ▼ seen, some time later                                     ▼
//! candidates:    ├────────────── lease duration (15 s) ──────────────────────┼───► may replace it
//! ```
//!
//! A leader counts from the time it *sent* the renewal, not from the time it received the response. Its term therefore
//! ends first, whatever the network does with the request or the response.

mod candidate;
mod config;
mod driver;
mod elector;
mod health;
mod identity;
mod lease;
mod lock;
mod machine;
pub mod metrics;
mod record;
mod work;

pub use self::candidate::{CandidateError, LeaseCandidate};
pub use self::config::{ConfigError, JITTER, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, STOP_GRACE};
pub use self::machine::LostReason;
pub use driver::ElectionEvent;
pub use elector::{ElectionError, ElectorHandle, Ended, LeaderElector};
pub use health::{ElectionHealth, NotRenewed};
pub use lease::{Lease, Lost};
pub use lock::{LeaseLock, Lock, LockError, LockFuture, LockType, LockTypeError};
pub use record::{Record, VersionedRecord};
pub use work::TermOutput;

#[cfg(test)]
mod tests;
