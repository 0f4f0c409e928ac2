//! Watches that outlive their connections.
//!
//! | to do this | take |
//! |---|---|
//! | follow a watch across disconnects | [`RetryWatcher`], of a [`Selection`] of objects |
//! | read a watch until events have come that you wait for | [`until`] |
//! | wait until one object is as you want it | [`wait_for`](crate::wait_for) |
//!
//! A single watch, which ends when its connection does, is [`Api::watch`](crate::Api::watch).
//!
//! Everything here is driven by whoever awaits it: nothing is spawned, so dropping a future or a stream is the way to
//! cancel it.

mod retry_watcher;
mod selection;
#[cfg(test)]
pub(crate) mod testing;
mod until;

pub use retry_watcher::{RetryWatcher, WatchSource};
pub use selection::Selection;
pub use until::{EventCondition, Until, UntilError, UntilFailure, WatchItem, until, when};
