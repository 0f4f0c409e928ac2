//! Work queues: what stands between the events of an informer and the workers of a controller.
//!
//! Handlers put keys in; workers take them out, one worker per key at any time, each key once however often it was added.
//! Keys can be added for later, come back after a back-off that grows with each failure, and have priorities, which make some
//! wait longer and none for ever.
//!
//! ```
//! use evenkeel_queue::WorkQueue;
//!
//! let queue = WorkQueue::<&str>::rate_limited("pods");
//! queue.add("default/web-0");
//! queue.add("default/web-0"); // is there already
//! let item = queue.try_next().unwrap(); // workers that can wait say `queue.next().await`
//! queue.add("default/web-0"); // it changes while a worker has it
//! assert!(queue.try_next().is_none()); // nobody else gets it
//! item.forget(); // done; or `item.retry(error)`, and it comes back after its back-off
//! assert_eq!(*queue.try_next().unwrap().key(), "default/web-0"); // once more, for what has changed
//! ```
//!
//! - [`WorkQueue`]: the queue. [`WorkQueue::next`] hands out an [`Item`], which says how it went.
//! - [`limiter`]: how long a key waits that has failed.
//! - [`Observer`]: hears what becomes of each key.
//! - [`metrics`]: what is reported, under client-go's names.
//! - [`flow`] and [`parallel`]: what client-go has beside its queues, a back-off by key and work done several at a time.
//!
//! Inside is a state machine that knows neither clock nor lock nor task (the private module `core`); around it are one lock and
//! those who wait. This crate depends on no other of ours and can be used for anything that has keys.

pub mod flow;
pub mod limiter;
pub mod metrics;
pub mod parallel;

mod builder;
mod clock;
mod core;
mod drain;
mod item;
mod next;
mod observe;
mod queue;
mod shared;
mod storage;
mod sync;
mod waiters;

#[cfg(test)]
mod queue_tests;

use std::fmt::Debug;
use std::hash::Hash;

pub use builder::Builder;
pub use clock::{Clock, Sleep, TokioClock};
pub use core::Pending;
pub use drain::{Drain, Drained, Undrained};
pub use flow::KeyedBackoff;
pub use item::Item;
pub use limiter::RateLimiter;
pub use next::Next;
pub use observe::{Observation, Observer, Outcome, Place, Step};
pub use parallel::Parallel;
pub use queue::{Add, Delayed, LOW_PRIORITY, Stats, WeakQueue, WorkQueue};
pub use storage::{Storage, Ticket};

/// What can be a key: anything that can be compared, hashed, cloned, sent to a worker and shown in a log.
///
/// A key is cloned once for each hand-out, and once if it fails before it was ever added. Comparing, hashing and cloning are done
/// under the queue's lock, and so are quick and never call the queue; dropping is not.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}
