//! What programs write around calls: trying again, waiting, following a watch across disconnects, reading page by page.
//!
//! | to do this | take |
//! |---|---|
//! | read, change, write; again if somebody else was faster | [`retry_on_conflict`] |
//! | have an object as it should be, whether it is there or not | [`create_or_update`] |
//! | wait until an object is as you want it, or gone | [`wait_for`], with [`conditions`] |
//! | follow a watch across disconnects | [`RetryWatcher`] |
//! | read a watch until events have come that you wait for | [`until`] |
//! | read a large collection in pages | [`Pager`] |
//! | name an object in an Event or a field | [`ToReference`] |
//!
//! Everything here is driven by whoever awaits it: nothing is spawned, so dropping a future or a stream is the way to
//! cancel it, and a panic in a closure of yours unwinds through your own code and nobody else's. Whoever would rather
//! hand in a signal, and be told what had gone wrong until then, finds a `stop_on` or a `stop` to take it: any future
//! will do.
//!
//! What decides (when to try again, from which version, with which page) is written without I/O and given the time and
//! the dice; the rest is thin.

mod backoff;
pub mod conditions;
mod create_or_update;
mod pager;
mod poll;
mod reference;
mod retry;
mod retry_watcher;
mod selection;
#[cfg(test)]
mod testing;
mod until;
mod wait;

pub use backoff::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, jitter};
pub use create_or_update::{CreateOrUpdate, create_or_update};
pub use pager::{Items, Listing, PageSource, Pager, PagingError};
pub use poll::{Interrupted, Pace, PollError, is_interrupted, optional_timeout, poll_until, poll_with_backoff, repeat};
pub use reference::{ToReference, part_reference, typed_reference};
pub use retry::{Conflict, Retry, RetryError, retry, retry_on_conflict};
pub use retry_watcher::{RetryWatcher, WatchSource};
pub use selection::Selection;
pub use until::{EventCondition, Until, UntilError, UntilFailure, WatchItem, until, when};
pub use wait::{ListSource, wait_for, wait_until};
