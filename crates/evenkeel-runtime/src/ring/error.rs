//! [`RingError`]: why a ring ended.

use std::sync::Arc;

use super::settings::RingConfigError;
use super::table::TableError;

/// Why [`Ring::run`](super::Ring::run) failed. A fence is no error: the member joins again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The settings are invalid. Nothing was sent.
    #[error(transparent)]
    Config(#[from] RingConfigError),
    /// The members of the ring have other settings. Settings in this list must be equal: the field, the hash, the lease duration.
    #[error(
        "ring {ring} has the settings {theirs:?}, and this process has {ours:?}: change them, or use another ring name"
    )]
    Refused {
        /// The name of the ring.
        ring: String,
        /// The settings of the ring.
        theirs: Arc<str>,
        /// The settings of this process.
        ours: Arc<str>,
    },
    /// The table has a format that this program does not know: a newer version of it is running.
    #[error("the table of ring {ring} cannot be read: run the version that wrote it")]
    Unreadable {
        /// The name of the ring.
        ring: String,
        /// Why it cannot be read.
        source: TableError,
    },
    /// The server's resource versions are no decimal numbers, so that revisions have no order.
    #[error("ring {ring}: the resource version {version:?} of a Lease is not a decimal number")]
    Versions {
        /// The name of the ring.
        ring: String,
        /// The resource version.
        version: String,
    },
    /// Work was still running at the drain limit, and was dropped.
    #[error("ring {ring}: {running} futures in {slices} slices were dropped at the drain limit")]
    NotDrained {
        /// The name of the ring.
        ring: String,
        /// The number of slices with running work.
        slices: usize,
        /// The number of futures.
        running: usize,
    },
    /// The member was fenced, or lost its Lease, again and again.
    #[error("ring {ring}: this process lost its membership {times} times in ten minutes, the last time because {why}")]
    LostTooOften {
        /// The name of the ring.
        ring: String,
        /// How many times.
        times: usize,
        /// The last reason.
        why: &'static str,
    },
    /// [`Ring::run`](super::Ring::run) is running already.
    #[error("ring {ring} is running already in this process")]
    Running {
        /// The name of the ring.
        ring: String,
    },
}
