//! [`ShardSelectorError`]: a malformed shard selector, in the words of the API server.

use super::ShardField;
use super::ranges::Bound;
use crate::selector::quote;

/// A malformed shard selector. `Display` prints the text of an API server, except for [`Syntax`](Self::Syntax): API servers parse
/// selectors as CEL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardSelectorError {
    /// The text has nothing but white space.
    #[error("empty shard selector is not allowed; omit the parameter for unfiltered lists")]
    Empty,
    /// The text is not a row of ranges.
    #[error("shard selector: expected {expected} at byte {at}")]
    Syntax {
        /// The offset of the first unexpected byte.
        at: usize,
        /// What the grammar requires.
        expected: &'static str,
    },
    /// Objects cannot be selected by this field.
    #[error("unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace", quote(.path))]
    UnsupportedField {
        /// The path.
        path: String,
    },
    /// Two ranges are of different fields.
    #[error("all shard ranges must use the same field, got {:?} and {:?}", .first.path(), .other.path())]
    MixedFields {
        /// The field of the first range.
        first: ShardField,
        /// The field of the other range.
        other: ShardField,
    },
    /// A bound does not start with `0x`.
    #[error("{bound} must have '0x' prefix, got {}", quote(.text))]
    MissingPrefix {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The bound.
        text: String,
    },
    /// A bound has no digits.
    #[error("{bound}: hex value is required after '0x'")]
    MissingDigits {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
    },
    /// A bound has a character that is no lower-case hexadecimal digit.
    #[error("{bound}: invalid hex character {} in {}", quote(.character), quote(.text))]
    InvalidDigit {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The character.
        character: String,
        /// The bound.
        text: String,
    },
    /// A bound has more than 17 digits.
    #[error("{bound}: hex value too long ({} chars, max 17): {}", .digits.len(), quote(.digits))]
    TooManyDigits {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The digits.
        digits: String,
    },
    /// A bound has 17 digits and is not 2^64.
    #[error("{bound}: 17-digit hex value must be '0x10000000000000000' (2^64), got {}", quote(.text))]
    TooLarge {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The bound.
        text: String,
    },
    /// A bound has fewer than 16 digits.
    #[error("{bound} must be a 0x-prefixed 16-digit hex value, got {} (did you mean \"0x{:0>16}\"?)", quote(.text), .text.get(2..).unwrap_or(""))]
    TooFewDigits {
        /// `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The bound.
        text: String,
    },
    /// A range ends where it starts, or before.
    #[error("shard range start {} must be less than end {}", Bound(*.start), Bound(*.end))]
    EmptyRange {
        /// The start.
        start: u128,
        /// The end.
        end: u128,
    },
}
