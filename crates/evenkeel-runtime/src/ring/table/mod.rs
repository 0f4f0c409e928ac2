//! [`SliceTable`]: which member owns which part of the hash space.

mod codec;
mod error;

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_core::shard::{PLACES, ShardRange, ShardRanges};

pub(crate) use codec::FORMAT;
pub use error::TableError;

/// The name of a member: of one life of one process.
pub(crate) type MemberName = Arc<str>;

/// The most members of a table.
pub(crate) const MAX_MEMBERS: usize = 512;
/// The most slices of a table.
pub(crate) const MAX_SLICES: usize = 4096;
/// The longest text of a table. Annotations end at 256 KiB.
pub(crate) const MAX_BYTES: usize = 128 * 1024;

/// Who owns a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SliceState {
    /// The table is new. A member that works on the slice continues; no other starts.
    Unknown,
    /// No member owns the slice.
    Free,
    /// The owner may work on the slice.
    Held {
        owner: MemberName,
        epoch: u64,
        /// The member that the slice moves to once it is warm.
        next: Option<MemberName>,
    },
    /// The owner has to release the slice.
    Moving {
        from: MemberName,
        epoch: u64,
        /// The revision that started the move.
        since: u64,
        to: Option<MemberName>,
    },
}

impl SliceState {
    /// Returns the member that may work on the slice, or that has not released it.
    pub(crate) fn owner(&self) -> Option<&MemberName> {
        match self {
            SliceState::Held { owner, .. } | SliceState::Moving { from: owner, .. } => Some(owner),
            SliceState::Unknown | SliceState::Free => None,
        }
    }

    /// Returns the member that the slice moves to.
    pub(crate) fn target(&self) -> Option<&MemberName> {
        match self {
            SliceState::Held { next, .. } => next.as_ref(),
            SliceState::Moving { to, .. } => to.as_ref(),
            SliceState::Unknown | SliceState::Free => None,
        }
    }

    /// Returns the owner after the move under way.
    pub(crate) fn settles_at(&self) -> Option<&MemberName> {
        match self {
            SliceState::Moving { to, .. } => to.as_ref(),
            _ => self.target().or(self.owner()),
        }
    }

    /// Returns whether a move is announced or under way.
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self, SliceState::Moving { .. } | SliceState::Held { next: Some(_), .. })
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self, SliceState::Held { .. })
    }
}

/// One slice of a table: from a place to before the start of the next slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: u64,
    pub(crate) state: SliceState,
}

/// A partition of the hash space. Slices are in ascending order, and the first starts at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceTable {
    /// The resource version that the write of this table replaced.
    pub(crate) revision: u64,
    /// The revision of the first write after the creation of the table, which is above all revisions of earlier
    /// tables. `None`: there was no such write yet.
    pub(crate) confirmed: Option<u64>,
    /// The term of the assigner that wrote the table.
    pub(crate) term: u64,
    /// The settings that all members share.
    pub(crate) terms: Arc<str>,
    /// The members, the oldest first.
    pub(crate) members: Vec<MemberName>,
    slices: Vec<Slice>,
}

impl SliceTable {
    /// Returns a new table of `count` equal slices without known owners.
    pub(crate) fn unknown(revision: u64, term: u64, terms: Arc<str>, members: Vec<MemberName>, count: usize) -> Self {
        let count = u32::try_from(count.clamp(1, MAX_SLICES)).unwrap_or(1);
        let slices = (0..count)
            .filter_map(|index| ShardRange::FULL.part(index, count))
            .map(|range| Slice { start: range.start(), state: SliceState::Unknown })
            .collect();
        SliceTable { revision, confirmed: None, term, terms, members, slices }
    }

    /// Returns a table of these slices.
    ///
    /// # Errors
    ///
    /// The slices are no partition, or too many.
    pub(crate) fn with_slices(&self, slices: Vec<Slice>) -> Result<Self, TableError> {
        let ascends = slices.windows(2).all(|pair| matches!(pair, [before, after] if before.start < after.start));
        if slices.first().map(|slice| slice.start) != Some(0) || !ascends {
            return Err(TableError::NotAPartition);
        }
        if slices.len() > MAX_SLICES {
            return Err(TableError::TooManySlices { slices: slices.len() });
        }
        Ok(SliceTable { slices, members: self.members.clone(), terms: Arc::clone(&self.terms), ..*self })
    }

    /// Returns a copy with another revision, as a start for the next table.
    pub(crate) fn succeeded_by(&self, revision: u64, term: u64) -> Self {
        SliceTable { revision, term, ..self.clone() }
    }

    /// Returns the number of slices.
    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    /// Returns the slices with their ranges, in ascending order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (ShardRange, &SliceState)> + '_ {
        (0..self.slices.len()).map(|index| (self.range(index), &self.slices[index].state))
    }

    /// Returns the range of a slice.
    pub(crate) fn range(&self, index: usize) -> ShardRange {
        let end = self.slices.get(index + 1).map_or(PLACES, |next| next.start.into());
        // Slices ascend, so the range is not empty.
        ShardRange::new(self.slices[index].start, end).unwrap_or(ShardRange::FULL)
    }

    /// Returns the state of a slice.
    pub(crate) fn state(&self, index: usize) -> &SliceState {
        &self.slices[index].state
    }

    pub(crate) fn state_mut(&mut self, index: usize) -> &mut SliceState {
        &mut self.slices[index].state
    }

    /// Returns the index of the slice that contains a place.
    pub(crate) fn index_of(&self, place: u64) -> usize {
        self.slices.partition_point(|slice| slice.start <= place).saturating_sub(1)
    }

    /// Splits the slice that contains this place, unless it starts there. Both parts keep their state.
    pub(crate) fn split_at(&mut self, place: u64) {
        let index = self.index_of(place);
        if self.slices[index].start != place {
            let state = self.slices[index].state.clone();
            self.slices.insert(index + 1, Slice { start: place, state });
        }
    }

    /// Merges a slice with the one after it, if one member holds both. The higher epoch counts.
    pub(crate) fn merge_after(&mut self, index: usize) {
        let Some([first, second]) = self.slices.get(index..index + 2) else { return };
        if let (
            SliceState::Held { owner, epoch, next: None },
            SliceState::Held { owner: other, epoch: other_epoch, next: None },
        ) = (&first.state, &second.state)
            && owner == other
        {
            let state = SliceState::Held { owner: owner.clone(), epoch: *epoch.max(other_epoch), next: None };
            self.slices[index].state = state;
            self.slices.remove(index + 1);
        }
    }

    /// Returns whether a slice names the member as owner or target.
    pub(crate) fn is_involved(&self, member: &str) -> bool {
        let names = |name: Option<&MemberName>| name.is_some_and(|name| **name == *member);
        self.slices.iter().any(|slice| names(slice.state.owner()) || names(slice.state.target()))
    }

    /// Returns the members that slices name as owner or target.
    pub(crate) fn involved(&self) -> BTreeSet<MemberName> {
        self.slices
            .iter()
            .flat_map(|slice| slice.state.owner().into_iter().chain(slice.state.target()))
            .cloned()
            .collect()
    }

    /// Returns the places that a member owns, gains or still has to release.
    pub(crate) fn wanted_by(&self, member: &str) -> ShardRanges {
        let names = |name: Option<&MemberName>| name.is_some_and(|name| **name == *member);
        self.iter().filter(|(_, state)| names(state.owner()) || names(state.target())).map(|(range, _)| range).collect()
    }

    /// Returns whether every slice is held, and none moves.
    pub(crate) fn is_settled(&self) -> bool {
        self.slices.iter().all(|slice| matches!(slice.state, SliceState::Held { next: None, .. }))
    }
}

#[cfg(test)]
mod tests;
