//! [`JsonError`]: what is wrong with a JSON text, and where.

use std::fmt;

/// A malformed JSON text: what is wrong, at which byte, and at which path.
///
/// The details are boxed, as errors are rare and results are passed around a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(Box<JsonErrorDetails>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct JsonErrorDetails {
    offset: u64,
    path: String,
    kind: JsonErrorKind,
}

/// What is wrong with a JSON text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonErrorKind {
    /// The text ends in the middle of a value.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// A byte that the grammar does not allow.
    #[error("unexpected {:?}, expected {expected}", char::from(*found))]
    Unexpected { found: u8, expected: &'static str },
    /// Arrays and objects are nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep { limit: u8 },
    /// The text is not UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// A backslash in a string starts no valid escape sequence, or half a surrogate pair.
    #[error("invalid escape sequence in a string")]
    InvalidEscape,
    /// A string contains an unescaped control character.
    #[error("control character in a string")]
    ControlCharacter,
    /// A number does not follow the grammar.
    #[error("malformed number")]
    InvalidNumber,
    /// A number is not an integer, or does not fit into 64 bits.
    #[error("number out of range")]
    NumberOutOfRange,
    /// A value has another type than expected.
    #[error("found {found}, expected {expected}")]
    WrongType { found: super::JsonType, expected: &'static str },
    /// An object has two members of one name.
    #[error("duplicate member")]
    DuplicateMember,
}

impl JsonError {
    pub(crate) fn new(offset: u64, path: String, kind: JsonErrorKind) -> Self {
        JsonError(Box::new(JsonErrorDetails { offset, path, kind }))
    }

    /// Returns the byte offset of the error from the start of the text or stream.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Returns the path of the malformed value, such as `items[3].metadata.labels[a.b/c]`; empty for the whole text.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> &JsonErrorKind {
        &self.0.kind
    }

    /// Makes offset and path relative to a text that contains this one at `offset` and `path`.
    pub(crate) fn within(mut self, offset: u64, path: &str) -> Self {
        let inner = &mut *self.0;
        inner.offset += offset;
        if !path.is_empty() {
            let joint = if inner.path.is_empty() || inner.path.starts_with('[') { "" } else { "." };
            inner.path = format!("{path}{joint}{}", inner.path);
        }
        self
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonErrorDetails { offset, path, kind } = &*self.0;
        write!(f, "JSON at byte {offset}")?;
        if !path.is_empty() {
            write!(f, " ({path})")?;
        }
        write!(f, ": {kind}")
    }
}

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.kind)
    }
}
