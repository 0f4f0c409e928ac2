//! What can be wrong with a JSON text, and where.

use std::fmt;

/// A fault in a JSON text: what, at which byte, and in which member of which object.
///
/// Errors are rare and large, results are neither: the particulars live in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(Box<Particulars>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Particulars {
    offset: u64,
    path: String,
    fault: JsonFault,
}

/// The ways a JSON text can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The text stops in the middle of a value.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// One thing stands where another should.
    #[error("unexpected {:?}, expected {expected}", char::from(*found))]
    Unexpected {
        /// The byte that stands there.
        found: u8,
        /// What should stand there.
        expected: &'static str,
    },
    /// Arrays and objects are nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u8,
    },
    /// The text is not UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// A backslash in a string is followed by something that is no escape, or by half a surrogate pair.
    #[error("invalid escape sequence in a string")]
    InvalidEscape,
    /// A string has a control character that should have been escaped.
    #[error("control character in a string")]
    ControlCharacter,
    /// A number is not written the way JSON numbers are.
    #[error("malformed number")]
    InvalidNumber,
    /// A number is not a whole number, or does not fit into 64 bits.
    #[error("number out of range")]
    NumberOutOfRange,
    /// A value has another type than it should.
    #[error("found {found}, expected {expected}")]
    WrongType {
        /// What is there.
        found: super::Shape,
        /// What should be there.
        expected: &'static str,
    },
    /// An object has a member twice.
    #[error("duplicate member")]
    DuplicateMember,
}

impl JsonError {
    pub(crate) fn new(offset: u64, path: String, fault: JsonFault) -> Self {
        JsonError(Box::new(Particulars { offset, path, fault }))
    }

    /// Where the fault stands, counted in bytes from the start of the text or stream.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// In which value the fault stands, such as `items[3].metadata.labels[a.b/c]`; empty for the whole text.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What is wrong.
    pub fn fault(&self) -> &JsonFault {
        &self.0.fault
    }

    /// The same error, of a text that stands at `offset` and `path` of a larger one.
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
        let Particulars { offset, path, fault } = &*self.0;
        write!(f, "JSON at byte {offset}")?;
        if !path.is_empty() {
            write!(f, " ({path})")?;
        }
        write!(f, ": {fault}")
    }
}

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.fault)
    }
}
