//! [`RingTable`]: which member of a ring owns what, as a value to read.

use std::fmt;

use evenkeel_core::shard::{PLACES, ShardRange, ShardRanges};

use super::table::{SliceState, SliceTable};

/// Which member owns what: a table of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingTable {
    /// Rises with each table of the ring.
    pub revision: u64,
    /// The members, the oldest first.
    pub members: Vec<RingMember>,
    /// The slices: a partition of the hash space, in ascending order.
    pub slices: Vec<RingSlice>,
}

/// A member of a ring, as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingMember {
    /// The name: identity and five random characters.
    pub name: String,
    /// The ranges that it owns. Ranges that move away count until they are released.
    pub ranges: ShardRanges,
}

/// A slice of a ring, as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingSlice {
    /// The places of the slice.
    pub range: ShardRange,
    /// Whether the slice is owned, and how far a move of it is.
    pub stage: SliceStage,
    /// The owner. `None`: the slice has none, or it is not known yet.
    pub owner: Option<String>,
    /// The member that the slice moves to.
    pub target: Option<String>,
    /// The epoch of the owner. It rises whenever a place gets another owner.
    pub epoch: Option<u64>,
}

/// Whether a slice is owned, and how far a move of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SliceStage {
    /// The table is new, and its owner has not reported the slice yet.
    Unknown,
    /// The slice has no owner.
    Free,
    /// The slice has an owner and stays there.
    Held,
    /// The owner works on the slice while the caches of the target are filled.
    Warming,
    /// The owner finishes its work on the slice; then the target starts.
    Draining,
}

impl SliceStage {
    /// Returns the stage as one word in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            SliceStage::Unknown => "unknown",
            SliceStage::Free => "free",
            SliceStage::Held => "held",
            SliceStage::Warming => "warming",
            SliceStage::Draining => "draining",
        }
    }

    fn of(state: &SliceState) -> Self {
        match state {
            SliceState::Unknown => SliceStage::Unknown,
            SliceState::Free => SliceStage::Free,
            SliceState::Held { next: None, .. } => SliceStage::Held,
            SliceState::Held { next: Some(_), .. } => SliceStage::Warming,
            SliceState::Moving { .. } => SliceStage::Draining,
        }
    }
}

impl fmt::Display for SliceStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RingMember {
    /// Returns the part of the hash space that the member owns, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.ranges.width() as f64 / PLACES as f64
    }
}

impl RingSlice {
    fn of(range: ShardRange, state: &SliceState) -> Self {
        let epoch = match state {
            SliceState::Held { epoch, .. } | SliceState::Moving { epoch, .. } => Some(*epoch),
            SliceState::Unknown | SliceState::Free => None,
        };
        RingSlice {
            range,
            stage: SliceStage::of(state),
            owner: state.owner().map(|name| name.to_string()),
            target: state.target().map(|name| name.to_string()),
            epoch,
        }
    }

    /// Returns whether the slice is on its way to another member.
    pub fn is_moving(&self) -> bool {
        matches!(self.stage, SliceStage::Warming | SliceStage::Draining)
    }
}

impl RingTable {
    pub(super) fn of(table: &SliceTable) -> Self {
        let slices: Vec<RingSlice> = table.iter().map(|(range, state)| RingSlice::of(range, state)).collect();
        let member = |name: &str| {
            let owned = slices.iter().filter(|slice| slice.owner.as_deref() == Some(name)).map(|slice| slice.range);
            RingMember { name: name.to_owned(), ranges: owned.collect() }
        };
        RingTable { revision: table.revision, members: table.members.iter().map(|name| member(name)).collect(), slices }
    }

    /// Returns the slice that contains a place.
    pub fn slice_of(&self, place: u64) -> Option<&RingSlice> {
        self.slices.iter().find(|slice| slice.range.contains(place))
    }

    /// Returns the part of the hash space without an owner, from 0 to 1.
    pub fn unowned_share(&self) -> f64 {
        let unowned = self.slices.iter().filter(|slice| slice.owner.is_none());
        unowned.map(|slice| slice.range.width()).sum::<u128>() as f64 / PLACES as f64
    }
}
