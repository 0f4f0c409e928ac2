//! Building blocks that several evenkeel crates share.
//!
//! Everything here is sans-IO: time and random numbers are arguments, so callers run in virtual time and in simulation.
//!
//! - [`Backoff`] and [`BackoffState`]: exponential backoff with a cap, jitter and a reset window.
//! - [`TokenBucket`]: an exact token bucket.
//! - [`Observers`]: a list of observers, unregistered by dropping an [`ObserverGuard`].
//! - [`hash`]: golden ratio hash spreading.
//!
//! Programs depend on `evenkeel`, not on this crate.

mod backoff;
pub mod hash;
mod observers;
mod token_bucket;

pub use backoff::{Backoff, BackoffState, jitter, scale};
pub use observers::{ObserverGuard, Observers};
pub use token_bucket::TokenBucket;
