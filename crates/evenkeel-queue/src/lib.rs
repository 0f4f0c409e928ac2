//! Work queues: they connect the event handlers of an informer to the workers of a controller.
//!
//! Handlers add keys; workers take them. A key is queued once however often it is added, and is in flight with one worker at a
//! time. Keys can be delayed, are retried with a backoff that grows with each failure, and have priorities that never starve.
//!
//! ```
//! use evenkeel_queue::WorkQueue;
//!
//! let queue = WorkQueue::<&str>::rate_limited("pods");
//! queue.add("default/web-0");
//! queue.add("default/web-0"); // queued already
//! let item = queue.try_next().unwrap(); // async workers call `queue.next().await`
//! queue.add("default/web-0"); // added while in flight
//! assert!(queue.try_next().is_none()); // no second worker gets it
//! item.forget(); // success; or `item.retry(error)`, which returns the key after its backoff
//! assert_eq!(*queue.try_next().unwrap().key(), "default/web-0"); // once more, for the second add
//! ```
//!
//! - [`WorkQueue`]: the queue. [`WorkQueue::next`] returns an [`Item`], which the worker ends with a verdict.
//! - [`limiter`]: rate limiters, which compute the backoff of a key.
//! - [`Observer`]: instrumentation of key transitions.
//! - [`metrics`]: the metrics, under client-go's names.
//! - `compat`: ports of client-go tools that few programs need, with the feature `compat`.
//!
//! The queue is a sans-IO state machine (the private module `machine`) behind one lock; waiting workers keep the timers. While no
//! worker waits, adds are left in an inbox, which the next call applies first. The crate works with any kind of key and knows
//! nothing of Kubernetes.
// The ports have no callers in this crate.
#![cfg_attr(not(feature = "compat"), allow(dead_code, unused_imports, unreachable_pub))]

#[cfg(feature = "compat")]
pub mod compat;
#[cfg(not(feature = "compat"))]
mod compat;
pub mod limiter;
pub mod metrics;

mod builder;
mod clock;
mod drain;
mod inbox;
mod item;
mod machine;
mod next;
mod observer;
mod queue;
mod ready_order;
mod shared;
mod suspension;
mod sync;
mod waiters;

use std::fmt::Debug;
use std::hash::Hash;

pub use builder::QueueBuilder;
pub use clock::{Clock, Sleep, TokioClock};
pub use drain::{Drain, DrainError};
pub use evenkeel_base::ObserverGuard;
pub use item::Item;
pub use limiter::RateLimiter;
pub use machine::{OnReadd, SuspendedAdds};
pub use next::NextItem;
pub use observer::{ItemOutcome, KeyEvent, KeyState, Observer};
pub use queue::{AddOptions, DrainDelayed, LOW_PRIORITY, QueueStats, WeakQueue, WorkQueue};
pub use suspension::{InFlight, Suspension};

/// The bounds of a key: comparable, hashable, cloneable, sendable and printable in logs.
///
/// A key is cloned once for each hand-out, and once if it fails before it was ever added. The queue compares, hashes and clones
/// keys under its lock: these must be quick and must not call the queue. Keys are dropped without the lock. A comparison may run
/// on the thread of a later call; if it panics there, the key is not added, and the panic is logged.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}
