//! [`ClusterFailure`]: what last failed in a cluster.

use std::fmt;

use tokio::time::Instant;

use crate::health::one_line;

/// The maximum length of a message in bytes.
const LENGTH: usize = 1024;

/// What last failed in a cluster, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterFailure {
    /// What failed, in one line.
    pub message: String,
    /// When it failed.
    pub at: Instant,
}

impl ClusterFailure {
    pub(super) fn new(error: impl fmt::Display, at: Instant) -> Self {
        ClusterFailure { message: one_line(&error.to_string(), LENGTH), at }
    }
}
