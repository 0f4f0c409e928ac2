//! Ports of client-go tools that few programs need.
//!
//! | here | client-go |
//! |---|---|
//! | [`default_item_limiter`] | `workqueue.DefaultItemBasedRateLimiter` |
//! | [`FastSlow`], [`MaxWait`] | `workqueue.ItemFastSlowRateLimiter`, `workqueue.WithMaxWaitRateLimiter` |
//! | [`KeyedBackoff`] | `flowcontrol.Backoff` |
//! | [`Parallel`] | `workqueue.ParallelizeUntil` |
//! | [`ReadyOrder`], [`Ticket`] | `workqueue.Queue`: a custom order of ready keys |
//! | [`StandaloneLimiter`] | rate limiters that count failures themselves, for use without a queue |

mod expiring_map;
mod keyed_backoff;
mod parallel;
mod standalone_limiter;

use std::time::Duration;

pub use keyed_backoff::KeyedBackoff;
pub use parallel::Parallel;
pub use standalone_limiter::StandaloneLimiter;

pub use crate::limiter::compose::MaxWait;
pub use crate::limiter::fast_slow::FastSlow;
pub use crate::ready_order::{ReadyOrder, Ticket};

use crate::limiter::Exponential;

/// Returns a limiter per key: 1 ms after the first failure, doubling to 1,000 s. The default of a queue starts at 5 ms.
pub fn default_item_limiter() -> Exponential {
    Exponential::new(Duration::from_millis(1), Duration::from_secs(1000))
}
