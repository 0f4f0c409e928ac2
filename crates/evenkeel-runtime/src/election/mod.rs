//! Leader election: one leader among many replicas.
//!
//! - [`LeaderElector`]: takes part in an election, and runs something while it leads.
//! - [`Lease`]: one term of leading: whether it lasts, when it ends, and its number.
//! - [`Lock`] and [`LeaseLock`]: where the record of who leads is kept.
//! - [`LeaseCandidate`]: standing for an election in which the API server chooses.
//! - [`ElectionHealth`]: a health check.
//! - [`metrics`]: what is reported, under client-go's names.
//!
//! # How it works
//!
//! The record says who leads and for how many seconds it is to be left alone. Its holder renews it. Others look at it, and whoever
//! sees it unchanged for that many seconds *by its own clock* may replace it, if nobody else has. No time that somebody wrote is ever
//! compared with a clock, so it does not matter what clocks say, only that they run about equally fast.
//!
//! ```text
//! leader:     sent ───────────────────────────────► lost() ──── grace ──► dropped
//!              │            renew deadline (10 s)                2 s         │
//!              ▼ takes effect, some time later                               │
//! record:      ●                                                             │
//!                ▼ seen, some time later                                     ▼
//! others:        ├────────────── lease duration (15 s) ──────────────────────┼───► may replace it
//! ```
//!
//! A leader counts from when it *sent* the renewal, not from when it heard that it succeeded. So whatever the network does with the
//! request or the answer, its time is over first.

mod candidate;
mod config;
#[cfg(test)]
mod config_tests;
mod core;
#[cfg(test)]
mod core_tests;
mod driver;
#[cfg(test)]
mod driver_tests;
mod elector;
mod health;
mod identity;
mod leadership;
mod lock;
pub mod metrics;
#[cfg(test)]
mod mishap_tests;
#[cfg(test)]
mod model_tests;
mod record;
mod work;

pub use self::candidate::{CandidateError, LeaseCandidate};
pub use self::config::{ConfigError, JITTER, LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, STOP_GRACE};
pub use self::core::LostReason;
pub use driver::ElectionEvent;
pub use elector::{ElectionError, ElectorHandle, Ended, LeaderElector};
pub use health::{ElectionHealth, NotRenewed};
pub use leadership::{Lease, Lost};
pub use lock::{LeaseLock, Lock, LockError, LockFuture, LockType, LockTypeError};
pub use record::{Held, Record};
pub use work::TermOutput;
