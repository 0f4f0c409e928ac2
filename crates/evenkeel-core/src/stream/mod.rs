//! Decoders for the two streams that an API server sends: a list, item by item, and a watch, event by event.
//!
//! Both are fed chunks as they come off the wire, cut anywhere, and are asked for what is complete. They hold no more
//! than one incomplete item, copy an item only if it was cut, and put limits on what they take in. How the bytes are read is
//! for a [codec](crate::codec) to know.

mod error;
mod list;
mod watch;

#[cfg(test)]
mod tests;

pub use error::{Malformation, StreamError};
pub use list::{ListDecoder, ListMeta};
pub use watch::{WatchDecoder, WatchEvent};

/// How large one item of a list or one event of a watch may be unless said otherwise: 32 MiB. Servers take objects of
/// at most 3 MiB.
pub const DEFAULT_MAX_ITEM_BYTES: usize = 32 << 20;
