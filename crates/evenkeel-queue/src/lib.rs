//! Work queues: what stands between the events of an informer and the workers of a controller.
//!
//! Handlers put keys in; workers take them out, one worker per key at any time, each key once however often it was added.
//! Keys can be added for later, come back after a backoff that grows with each failure, and have priorities, which make some
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
//! item.forget(); // done; or `item.retry(error)`, and it comes back after its backoff
//! assert_eq!(*queue.try_next().unwrap().key(), "default/web-0"); // once more, for what has changed
//! ```
//!
//! - [`WorkQueue`]: the queue. [`WorkQueue::next`] hands out an [`Item`], which says how it went.
//! - [`limiter`]: how long a key waits that has failed.
//! - [`Observer`]: hears what becomes of each key.
//! - [`metrics`]: what is reported, under client-go's names.
//! - [`compat`]: ports of client-go tools that few programs need.
//!
//! Inside is a state machine that knows neither clock nor lock nor task (the private module `machine`); around it are one lock and
//! those who wait. This crate depends on no other of ours and can be used for anything that has keys.

pub mod compat;
pub mod limiter;
pub mod metrics;

mod builder;
mod clock;
mod drain;
mod item;
mod machine;
mod next;
mod observer;
mod queue;
mod ready_order;
mod shared;
mod sync;
mod waiters;

use std::fmt::Debug;
use std::hash::Hash;

pub use builder::QueueBuilder;
pub use clock::{Clock, Sleep, TokioClock};
pub use drain::{Drain, DrainError, DrainFuture};
pub use evenkeel_base::ObserverGuard;
pub use item::Item;
pub use limiter::RateLimiter;
pub use machine::OnReadd;
pub use next::NextItem;
pub use observer::{ItemOutcome, KeyEvent, KeyState, Observer};
pub use queue::{AddOptions, DrainDelayed, LOW_PRIORITY, QueueStats, WeakQueue, WorkQueue};
pub use ready_order::{ReadyOrder, Ticket};

/// What can be a key: anything that can be compared, hashed, cloned, sent to a worker and shown in a log.
///
/// A key is cloned once for each hand-out, and once if it fails before it was ever added. Comparing, hashing and cloning are done
/// under the queue's lock, and so are quick and never call the queue; dropping is not.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}
