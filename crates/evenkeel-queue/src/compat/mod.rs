//! Ports of client-go tools that few programs need.
//!
//! | here | client-go |
//! |---|---|
//! | [`FastSlow`], [`MaxWait`] | `workqueue.ItemFastSlowRateLimiter`, `workqueue.WithMaxWaitRateLimiter` |
//! | [`KeyedBackoff`] | `flowcontrol.Backoff` |
//! | [`Parallel`] | `workqueue.ParallelizeUntil` |
//! | [`StandaloneLimiter`] | rate limiters that count failures themselves, for use without a queue |

mod expiring_map;
mod keyed_backoff;
mod parallel;
mod standalone_limiter;

pub use keyed_backoff::KeyedBackoff;
pub use parallel::Parallel;
pub use standalone_limiter::StandaloneLimiter;

pub use crate::limiter::compose::MaxWait;
pub use crate::limiter::fast_slow::FastSlow;
