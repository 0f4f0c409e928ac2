//! [`RequestError`]: why a request is invalid.

/// Why a request is invalid. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A part of the path is invalid.
    #[error("{value:?} is no {part}: {problem}")]
    Segment {
        /// The part: namespace, name, subresource.
        part: &'static str,
        /// The value.
        value: String,
        /// Why.
        problem: String,
    },
    /// A header is invalid.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// The name.
        name: String,
        /// Why. The value is not shown.
        problem: String,
    },
    /// The body cannot be encoded.
    #[error("{what} cannot be encoded: {problem}")]
    Body {
        /// The type of the value.
        what: String,
        /// Why.
        problem: String,
    },
    /// Something else is invalid.
    #[error("{problem}")]
    Invalid {
        /// Why.
        problem: String,
    },
}
