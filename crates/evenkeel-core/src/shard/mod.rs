//! Sharding by hash: the places of objects, ranges of places, and the selector of sharded lists and watches.
//!
//! The *place* of an object is the 64-bit FNV-1a hash of one field of its metadata: its uid or its namespace. A sharded list or watch
//! returns the objects whose place is in a set of ranges.
//!
//! ```
//! use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector, place};
//!
//! let lower = ShardRange::new(0, 1 << 63)?;
//! let selector = ShardSelector::new(ShardField::Namespace, lower);
//! assert_eq!(selector.to_string(), "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')");
//! assert!(!selector.ranges().contains(place("default")));
//! # Ok::<(), evenkeel_core::shard::ShardSelectorError>(())
//! ```
//!
//! FNV-1a mixes the last bytes of a text badly into the upper bits of the hash. Namespaces that differ in their last characters are
//! close to each other, so that equal ranges hold very different numbers of objects. Random uids are even.

mod error;
mod key;
mod parse;
mod ranges;
mod selector;

#[cfg(test)]
mod tests;

pub use error::ShardSelectorError;
pub use key::ShardKey;
#[cfg(feature = "internals")]
pub use parse::{parse_bound, range_of};
pub use ranges::{ShardRange, ShardRanges};
pub use selector::{ShardField, ShardSelector};

/// The number of places: the end of the last range.
pub const PLACES: u128 = 1 << 64;

/// Returns the place of a text: its 64-bit FNV-1a hash, which all API servers compute alike.
///
/// ```
/// # use evenkeel_core::shard::place;
/// assert_eq!(place("kube-system"), 0xdf65_c7bc_1d82_b35e);
/// ```
pub const fn place(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}
