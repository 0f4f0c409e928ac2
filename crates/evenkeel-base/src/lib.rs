//! Building blocks that several evenkeel crates share.
//!
//! Everything but `channels`, `http` and `spdy` is sans-IO: time and random numbers are arguments, so callers run in virtual time and in
//! simulation.
//!
//! - [`Backoff`] and [`BackoffState`]: exponential backoff with a cap, jitter and a reset window.
//! - [`TokenBucket`]: an exact token bucket.
//! - [`Observers`]: a list of observers, unregistered by dropping an [`ObserverGuard`].
//! - [`hash`]: golden ratio hash spreading.
//! - [`page`]: the look of the HTML pages.
//! - [`planted`]: mistakes that a simulation plants, in builds of their own only.
//! - [`task`]: marks the tasks of the library, so that a simulation decides in which order they run.
//! - `channels`: the channels of exec, attach and port-forward over a WebSocket, with the feature of that name.
//! - `spdy`: SPDY/3.1 through a WebSocket, for port-forward, with the feature of that name.
//! - `http` and `log_throttle`: the accept loop of an HTTP server, and a limit on repeated log lines, with the feature `http`.
//!
//! Programs depend on `evenkeel`, not on this crate.

mod backoff;
#[cfg(feature = "channels")]
pub mod channels;
pub mod hash;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod log_throttle;
mod observers;
pub mod page;
pub mod planted;
#[cfg(feature = "spdy")]
pub mod spdy;
pub mod task;
mod token_bucket;
#[cfg(feature = "channels")]
mod wakers;

pub use backoff::{Backoff, BackoffState, jitter, scale};
pub use observers::{ObserverGuard, Observers};
pub use token_bucket::TokenBucket;
