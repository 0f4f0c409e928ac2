//! [`ShardRange`] and [`ShardRanges`]: intervals of places and sets of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::PLACES;
use super::error::ShardSelectorError;

/// A non-empty interval of places. The start is included, the end is not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardRange {
    start: u64,
    /// The last place: a `u64` cannot represent the end of the range that ends at 2^64.
    last: u64,
}

impl ShardRange {
    /// All places.
    pub const FULL: ShardRange = ShardRange { start: 0, last: u64::MAX };

    /// Returns the range from `start` to before `end`, which is at most [`PLACES`].
    ///
    /// # Errors
    ///
    /// The range is empty or ends after the last place.
    pub fn new(start: u64, end: u128) -> Result<Self, ShardSelectorError> {
        match u64::try_from(end.wrapping_sub(1)) {
            Ok(last) if start <= last => Ok(ShardRange { start, last }),
            _ => Err(ShardSelectorError::EmptyRange { start: start.into(), end }),
        }
    }

    /// Returns the first place.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Returns the place after the last one; at most [`PLACES`].
    pub fn end(self) -> u128 {
        u128::from(self.last) + 1
    }

    /// Returns the number of places.
    pub fn width(self) -> u128 {
        self.end() - u128::from(self.start)
    }

    /// Returns whether a place is in the range.
    pub fn contains(self, place: u64) -> bool {
        self.start <= place && place <= self.last
    }

    /// Returns the places that both ranges contain.
    pub fn intersection(self, other: ShardRange) -> Option<ShardRange> {
        let (start, last) = (self.start.max(other.start), self.last.min(other.last));
        (start <= last).then_some(ShardRange { start, last })
    }

    /// Returns the parts before a place and from it on, or `None` if one of them would be empty.
    pub fn split_at(self, place: u64) -> Option<[ShardRange; 2]> {
        let before = place.checked_sub(1).filter(|before| *before >= self.start && *before < self.last)?;
        Some([ShardRange { start: self.start, last: before }, ShardRange { start: place, last: self.last }])
    }

    /// Returns one of `count` adjacent parts of equal width, from 0. Returns `None` if there is no such part, or if the range has
    /// fewer places than parts.
    pub fn part(self, index: u32, count: u32) -> Option<ShardRange> {
        if index >= count {
            return None;
        }
        // At most 2^64 times 2^32.
        let bound = |index: u32| u128::from(self.start) + self.width() * u128::from(index) / u128::from(count);
        ShardRange::new(u64::try_from(bound(index)).ok()?, bound(index + 1)).ok()
    }
}

impl From<RangeInclusive<u64>> for ShardRanges {
    /// The places of an inclusive range; none if it is empty.
    fn from(places: RangeInclusive<u64>) -> Self {
        let (start, last) = places.into_inner();
        (start <= last).then_some(ShardRange { start, last }).into_iter().collect()
    }
}

/// Prints the bounds in hexadecimal digits: `[0x…, 0x…)`.
impl fmt::Display for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", Bound(self.start.into()), Bound(self.end()))
    }
}

impl fmt::Debug for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A bound as selectors have it: at least 16 digits.
pub(super) struct Bound(pub(super) u128);

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

/// A set of places, as sorted ranges with gaps between them. Clones share the ranges.
///
/// Equal sets are equal values: ranges that overlap or touch are merged.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ShardRanges(Arc<[ShardRange]>);

impl ShardRanges {
    /// Returns all places.
    pub fn full() -> Self {
        ShardRange::FULL.into()
    }

    /// Returns no places.
    pub fn empty() -> Self {
        ShardRanges(Arc::default())
    }

    /// Returns whether every place is in the set.
    pub fn is_full(&self) -> bool {
        *self.0 == [ShardRange::FULL]
    }

    /// Returns whether no place is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a place is in the set.
    pub fn contains(&self, place: u64) -> bool {
        let after = self.0.partition_point(|range| range.start <= place);
        after.checked_sub(1).and_then(|index| self.0.get(index)).is_some_and(|range| range.contains(place))
    }

    /// Returns whether all places of the other set are in this one.
    pub fn covers(&self, other: &ShardRanges) -> bool {
        other.difference(self).is_empty()
    }

    /// Returns whether a place is in both sets.
    pub fn intersects(&self, other: &ShardRanges) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Returns the ranges in ascending order. Between two of them is a gap.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ShardRange> + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of places.
    pub fn width(&self) -> u128 {
        self.iter().map(ShardRange::width).sum()
    }

    /// Returns the places that are in this set or the other.
    #[must_use]
    pub fn union(&self, other: &ShardRanges) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Returns the places that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &ShardRanges) -> Self {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut common = Vec::new();
        while let (Some(a), Some(b)) = (left.peek().copied(), right.peek().copied()) {
            common.extend(a.intersection(b));
            if a.last < b.last {
                left.next()
            } else {
                right.next()
            };
        }
        ShardRanges(common.into())
    }

    /// Returns the places that are in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &ShardRanges) -> Self {
        self.intersection(&other.gaps())
    }

    /// Returns the places that are not in this set.
    fn gaps(&self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut start = Some(0);
        for range in self.iter() {
            if let Some(before) = range.start.checked_sub(1)
                && let Some(start) = start.filter(|start| *start <= before)
            {
                gaps.push(ShardRange { start, last: before });
            }
            start = range.last.checked_add(1);
        }
        gaps.extend(start.map(|start| ShardRange { start, last: u64::MAX }));
        ShardRanges(gaps.into())
    }

    /// Returns a superset with at most `limit` ranges, whose smallest gaps are included.
    pub(super) fn coarsened(&self, limit: usize) -> Self {
        let surplus = self.0.len().saturating_sub(limit);
        if surplus == 0 {
            return self.clone();
        }
        let mut gaps: Vec<ShardRange> = self.gaps().iter().filter(|gap| gap.start > 0 && gap.end() < PLACES).collect();
        gaps.sort_by_key(|gap| (gap.width(), gap.start));
        self.iter().chain(gaps.into_iter().take(surplus)).collect()
    }
}

impl FromIterator<ShardRange> for ShardRanges {
    fn from_iter<I: IntoIterator<Item = ShardRange>>(ranges: I) -> Self {
        let mut ranges: Vec<ShardRange> = ranges.into_iter().collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, previous| {
            let joins = next.start <= previous.last.saturating_add(1);
            if joins {
                previous.last = previous.last.max(next.last);
            }
            joins
        });
        ShardRanges(ranges.into())
    }
}

impl From<ShardRange> for ShardRanges {
    fn from(range: ShardRange) -> Self {
        ShardRanges(Arc::new([range]))
    }
}

impl fmt::Debug for ShardRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
