//! Ports of client-go tools that few programs need: a backoff by key without a queue, a rate limiter without a queue, and
//! `ParallelizeUntil`.

mod expiring_map;
mod keyed_backoff;
mod parallel;
mod standalone_limiter;

pub use keyed_backoff::KeyedBackoff;
pub use parallel::Parallel;
pub use standalone_limiter::StandaloneLimiter;
