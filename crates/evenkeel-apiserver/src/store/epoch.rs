//! Where revisions start, and the revisions that no state belongs to.

use jiff::Timestamp;

/// 2024-01-01T00:00:00Z in microseconds.
const EPOCH: i64 = 1_704_067_200_000_000;

/// The most ranges of lost revisions that a store remembers.
const MAX_LOST: usize = 64;

/// Returns the first revision of a server that starts at this time: the microseconds since 2024.
///
/// A server that starts later starts at a higher revision than any that an earlier one reached, unless that one committed
/// more than a million writes per second, or the clock was set back. The number stays below 2^53 until the year 2309, so
/// JavaScript clients can compare it.
pub(crate) fn first_revision(now: Timestamp) -> u64 {
    u64::try_from(now.as_microsecond().saturating_sub(EPOCH)).unwrap_or(0)
}

/// The revisions that a client may know and whose state this store does not have: an earlier process committed them, and
/// they were not restored. Reads and watches from them are refused as compacted.
#[derive(Clone, Debug, Default)]
pub(super) struct LostRevisions {
    /// Exclusive bounds, in ascending order.
    ranges: Vec<(u64, u64)>,
}

impl LostRevisions {
    /// Adds the revisions between two others. Returns the end of a range that is no longer remembered, up to which the
    /// history must be compacted.
    pub(super) fn add(&mut self, after: u64, before: u64) -> Option<u64> {
        if before > after.saturating_add(1) {
            self.ranges.push((after, before));
        }
        (self.ranges.len() > MAX_LOST).then(|| self.ranges.remove(0).1)
    }

    /// Returns the first revision after a lost one; `None` if the revision is not lost.
    pub(super) fn end_of(&self, revision: u64) -> Option<u64> {
        self.ranges.iter().find(|(after, before)| *after < revision && revision < *before).map(|(_, before)| *before)
    }

    /// Returns the ranges, in ascending order.
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}
