//! [`RequestError`]: why a request cannot be built.

/// Why a request cannot be built. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A part of the path cannot stand there.
    #[error("{value:?} is no {part}: {problem}")]
    Segment {
        /// Which part: namespace, name, subresource.
        part: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A header cannot be sent.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with its name or value. The value is not shown.
        problem: String,
    },
    /// The object cannot be written as the body of a request.
    #[error("{what} cannot be encoded: {problem}")]
    Body {
        /// What was to be encoded.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something else that was asked for makes no sense.
    #[error("{problem}")]
    Invalid {
        /// What is wrong.
        problem: String,
    },
}
