//! The errors of templates.

/// Why a template cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPathSyntaxError {
    /// The template has too many characters.
    #[error("JSONPath template of {length} characters exceeds the limit of {limit}")]
    TooLong {
        /// The characters of the template.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// Ranges, filters and keys are nested too deeply.
    #[error("JSONPath template is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The template is malformed. The reasons are the texts of kubectl.
    #[error("{reason} (at byte {position} of the JSONPath template)")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// Where the malformed part starts.
        position: usize,
    },
}

/// Why a template has no result for a document. The texts are those of kubectl, without contents of the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonPathError {
    /// No input has this key. Templates can [allow](super::JsonPathTemplate::allow_missing_keys) that.
    #[error("{key} is not found")]
    NotFound {
        /// The key.
        key: String,
    },
    /// An index, or the end of a slice, is outside of a list.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index, counted from the start of the list.
        index: i64,
        /// The length of the list.
        length: usize,
    },
    /// A slice starts behind its end.
    #[error("starting index {start} is greater than ending index {end}")]
    Reversed {
        /// The start of the slice.
        start: i64,
        /// Its end.
        end: i64,
    },
    /// An index or a slice is applied to something else than a list.
    #[error("{found} is not array or slice")]
    NotList {
        /// What it is, by its Go type.
        found: &'static str,
    },
    /// A filter is applied to something else than a list.
    #[error("{found} is not array or slice and cannot be filtered")]
    NotFilterable {
        /// What it is, by its Go type.
        found: &'static str,
    },
    /// A side of a comparison has several values.
    #[error("can only compare one element at a time")]
    SeveralToCompare,
    /// The template has too many results.
    #[error("JSONPath template has more than {limit} results")]
    TooManyResults {
        /// The limit.
        limit: usize,
    },
    /// The document is too deep for `..`.
    #[error("document is deeper than {limit} levels below a recursive descent")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The template visits too many values of the document.
    #[error("JSONPath template visits more than {limit} values")]
    TooManyVisits {
        /// The limit.
        limit: usize,
    },
    /// The output is too large.
    #[error("output of the JSONPath template exceeds {limit} bytes")]
    OutputTooLarge {
        /// The limit.
        limit: usize,
    },
}
