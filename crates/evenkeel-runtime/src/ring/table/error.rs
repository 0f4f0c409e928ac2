//! [`TableError`]: a slice table that cannot be read or written.

use super::{MAX_BYTES, MAX_MEMBERS, MAX_SLICES};

/// Why the table of a ring cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The Lease has no table.
    #[error("the annotation of the table is missing")]
    Missing,
    /// The table has a format that this program does not know.
    #[error("the table has format {format:?}, and this program reads format 1")]
    UnknownFormat {
        /// The format, as written.
        format: String,
    },
    /// The text does not follow its format.
    #[error("the {part} of the table is malformed: {text:?}")]
    Malformed {
        /// The part of the text.
        part: &'static str,
        /// The unexpected text.
        text: String,
    },
    /// The slices overlap or leave places out.
    #[error("the slices of the table are no partition of the hash space")]
    NotAPartition,
    /// A slice names a member that the table does not list.
    #[error("a slice of the table names member {index} of {members}")]
    UnknownMember {
        /// The index of the member.
        index: usize,
        /// The number of members.
        members: usize,
    },
    /// There are too many members.
    #[error("{members} members; a ring has at most {MAX_MEMBERS}")]
    TooManyMembers {
        /// The number of members.
        members: usize,
    },
    /// There are too many slices.
    #[error("{slices} slices; a ring has at most {MAX_SLICES}")]
    TooManySlices {
        /// The number of slices.
        slices: usize,
    },
    /// The text is too long for an annotation.
    #[error("the table has {bytes} bytes; at most {MAX_BYTES} are written")]
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
}
