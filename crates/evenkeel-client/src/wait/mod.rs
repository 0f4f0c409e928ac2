//! Waiting for an object to meet a condition, and polling.
//!
//! [`wait_for`] watches an object until a condition holds; see [`conditions`]. [`wait_for_crd`] waits until a custom
//! resource can be used. Use [`poll_until`], [`poll_with_backoff`] and [`repeat`] for what cannot be watched.
//!
//! The caller's task drives everything here: nothing is spawned, dropping a future cancels it, and a panic in a closure
//! unwinds through the caller. The `stop` arguments take any future as a signal. A wait that ended before its condition
//! was met is an [`Interrupted`].

mod condition_state;
pub mod conditions;
mod definition;
mod object;
mod poll;

pub use condition_state::{ConditionState, WaitError};
pub use definition::wait_for_crd;
pub(crate) use object::wait_while_pending;
pub use object::{ListSource, wait_for, wait_until};
pub(crate) use poll::is_ready;
pub use poll::{Interrupted, Pace, PollError, is_interrupted, optional_timeout, poll_until, poll_with_backoff, repeat};
