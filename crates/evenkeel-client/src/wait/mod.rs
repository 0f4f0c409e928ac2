//! Waiting: for an object to be as it is wanted, or for anything else that can be asked about again and again.
//!
//! [`wait_for`] watches an object until a condition holds; there are ready-made [`conditions`]. For what cannot be watched
//! there are [`poll_until`], [`poll_with_backoff`] and [`repeat`].
//!
//! Everything here is driven by whoever awaits it: nothing is spawned, so dropping a future is the way to cancel it, and a
//! panic in a closure of yours unwinds through your own code and nobody else's. Whoever would rather hand in a signal finds
//! a `stop` to take it: any future will do. That waiting came to an end before what was waited for is an [`Interrupted`].

pub mod conditions;
mod object;
mod poll;

pub use object::{ListSource, wait_for, wait_until};
pub(crate) use poll::is_ready;
pub use poll::{Interrupted, Pace, PollError, is_interrupted, optional_timeout, poll_until, poll_with_backoff, repeat};
