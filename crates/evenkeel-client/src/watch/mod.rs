//! Watches that survive disconnects.
//!
//! | task | use |
//! |---|---|
//! | follow a watch across disconnects | [`RetryWatcher`], of a [`Selection`] of objects |
//! | read a watch until certain events have arrived | [`until`] |
//! | wait until one object meets a condition | [`wait_for`](crate::wait_for) |
//!
//! A single watch, which ends with its connection, is [`Api::watch`](crate::Api::watch).
//!
//! The caller's task drives everything here: nothing is spawned, and dropping a future or a stream cancels it.

mod retry_watcher;
mod selection;
#[cfg(test)]
pub(crate) mod testing;
mod until;

pub use retry_watcher::{RetryWatcher, WatchSource};
pub use selection::Selection;
pub use until::{EventCondition, Until, UntilError, UntilFailure, WatchItem, until, when};
