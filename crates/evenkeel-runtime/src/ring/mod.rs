//! Rings: replicas that share the work of a program.
//!
//! - [`Ring`]: a member of a ring; its settings, and [`Ring::run`].
//! - [`Slices`]: the ranges of places that this process gains and loses, as a stream of [`SliceEvent`]s.
//! - [`RingHandle`]: [guarded](RingHandle::guard) work, and [fences](RingHandle::fence) for external stores.
//! - [`RingTable`]: which member owns what. [`RingStatus`] reads it without a membership.
//! - [`metrics`]: what is reported.
//!
//! # How it works
//!
//! The [places](evenkeel_core::shard) of the hash space are cut into slices. One Lease, the table, maps each slice to a member. Each
//! member renews a Lease of its own. An elected assigner writes the table; any number of assigners at once are safe.
//!
//! ```text
//! Lease <ring>           the election of the assigner
//! Lease <ring>-table     range → member, epoch                       written by the assigner
//! Lease <ring>-<member>  heartbeat, seen revision, held ranges       written by the member, fenced by the assigner
//! ```
//!
//! A member works on a slice while its own Lease is valid, which counts from when a renewal was *sent*. A slice leaves a member by its
//! own release, or by a fence: a conditional write on the member's Lease after it was observed unchanged for the lease duration. In
//! a move, caches overlap and work does not:
//!
//! ```text
//! table: held by A, next B │ B widens its caches (wanted), reports them (cover) │ table: moving from A to B
//!                          │ A: Draining … drop of the guard: released          │ table: held by B, higher epoch │ B: Granted
//! ```
//!
//! # The seam for caches and queues
//!
//! A user of a ring that has caches per range does this:
//!
//! 1. It builds the ring with [`Ring::covered_by_caller`], so that nothing is granted, or moves here, before its caches have it.
//! 2. It follows [`RingHandle::wanted`], widens its caches to these places, and reports with [`RingHandle::cover`] once *all* caches
//!    cover them. When places leave `wanted`, it narrows its caches.
//! 3. At [`SliceEvent::Granted`], it waits until its caches show the predecessor's writes ([`Grant::predecessor_writes`], or a
//!    consistent list if there are none), and starts to work. It runs each unit of work in [`RingHandle::guard`].
//! 4. At [`SliceEvent::Draining`], it takes the keys of the range out of its queues, and cancels running work at
//!    [`Drain::cancelled`]. When the last one has ended, it reports the highest version that it has written per resource with
//!    [`Drain::written`], and drops the [`Drain`]: that is the release.
//! 5. At [`SliceEvent::Lost`], the range is another member's. Guarded work of it is not polled any more.

mod assigner;
mod candidacy;
mod clock;
mod driver;
mod error;
mod handle;
mod inbox;
mod lease_store;
mod member;
mod member_record;
pub mod metrics;
mod plan;
mod planted;
mod ring_builder;
mod ring_status;
mod ring_table;
mod settings;
mod shared;
mod shared_work;
mod slices;
mod table;

pub use error::RingError;
pub use handle::{RingFence, RingHandle};
pub use member_record::SliceLoad;
pub use ring_builder::Ring;
pub use ring_status::{MemberStatus, RingStatus, RingStatusError};
pub use ring_table::{RingMember, RingSlice, RingTable, SliceStage};
pub use settings::{RingConfigError, ShardBy};
pub(crate) use shared_work::{RangeWrites, ShardedWork, WorkingRing};
pub use slices::{Drain, Grant, SliceEvent, Slices};
pub use table::TableError;

#[cfg(test)]
mod tests;
