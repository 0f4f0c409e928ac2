//! [`ShardSelector`]: which objects a sharded list or watch returns.

use std::fmt;
use std::str::FromStr;

use super::error::ShardSelectorError;
use super::ranges::{Bound, ShardRange, ShardRanges};
use super::{parse, place};
use crate::header::Header;

/// The most ranges of a query parameter. API servers accept about 1,330; the headers of proxies end earlier.
const MAX_RENDERED: usize = 64;

/// The field whose hash is the place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `metadata.uid`.
    Uid,
    /// `metadata.namespace`. All cluster-scoped objects have the place of the empty text.
    Namespace,
}

impl ShardField {
    /// Returns the path of the field in selectors.
    pub fn path(self) -> &'static str {
        match self {
            ShardField::Uid => "object.metadata.uid",
            ShardField::Namespace => "object.metadata.namespace",
        }
    }

    /// Returns the place of an object. It never changes.
    pub fn place_of(self, header: &Header) -> u64 {
        place(match self {
            ShardField::Uid => header.uid(),
            ShardField::Namespace => header.key().namespace().unwrap_or(""),
        })
    }
}

impl FromStr for ShardField {
    type Err = ShardSelectorError;

    /// Parses the path of a field in selectors.
    fn from_str(path: &str) -> Result<Self, ShardSelectorError> {
        [ShardField::Uid, ShardField::Namespace]
            .into_iter()
            .find(|field| field.path() == path)
            .ok_or_else(|| ShardSelectorError::UnsupportedField { path: path.to_owned() })
    }
}

/// Selects objects by their place.
///
/// `Display` prints the text that API servers return as `metadata.shardInfo.selector`, and [`FromStr`] parses it. The texts of equal
/// selectors may differ, so compare selectors instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    field: ShardField,
    ranges: ShardRanges,
}

impl ShardSelector {
    /// Returns the selector of the objects whose place is in `ranges`.
    pub fn new(field: ShardField, ranges: impl Into<ShardRanges>) -> Self {
        ShardSelector { field, ranges: ranges.into() }
    }

    /// Returns the field that places are computed from.
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// Returns the selected places.
    pub fn ranges(&self) -> &ShardRanges {
        &self.ranges
    }

    /// Returns whether an object is selected.
    pub fn matches(&self, header: &Header) -> bool {
        self.ranges.is_full() || self.ranges.contains(self.field.place_of(header))
    }

    /// Returns the selector that requests send instead of this one: a superset that is short enough. `None` if no parameter is
    /// needed.
    ///
    /// Beyond 64 ranges, the smallest gaps are included. A set without places, which the grammar cannot express, becomes one place.
    /// Recipients remove the surplus themselves.
    pub fn requested(&self) -> Option<ShardSelector> {
        if self.ranges.is_full() {
            return None;
        }
        let ranges = if self.ranges.is_empty() { (0..=0).into() } else { self.ranges.coarsened(MAX_RENDERED) };
        Some(ShardSelector::new(self.field, ranges))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            let (start, end) = (Bound(range.start().into()), Bound(range.end()));
            write!(f, "shardRange({}, '{start}', '{end}')", self.field.path())?;
        }
        Ok(())
    }
}

impl FromStr for ShardSelector {
    type Err = ShardSelectorError;

    /// Parses the text of an API server: ranges joined by `||`, with single or double quotes and any white space.
    ///
    /// API servers accept more in requests: whatever CEL parses to the same.
    fn from_str(text: &str) -> Result<Self, ShardSelectorError> {
        parse::selector(text)
    }
}

impl ShardSelector {
    /// Returns the selector of ranges that all have one field.
    ///
    /// # Errors
    ///
    /// There is no range, or two have different fields.
    pub(super) fn of(ranges: &[(ShardField, ShardRange)]) -> Result<Self, ShardSelectorError> {
        let &[(field, _), ..] = ranges else { return Err(ShardSelectorError::Empty) };
        match ranges.iter().find(|(other, _)| *other != field) {
            Some(&(other, _)) => Err(ShardSelectorError::MixedFields { first: field, other }),
            None => Ok(ShardSelector { field, ranges: ranges.iter().map(|(_, range)| *range).collect() }),
        }
    }
}
