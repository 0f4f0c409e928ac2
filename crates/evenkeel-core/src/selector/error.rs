//! [`SelectorError`]: a malformed selector, in the words of the API server.

use std::fmt;

/// A malformed selector. `Display` prints the text of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A label selector has an unexpected token.
    #[error("found '{found}', expected: {expected}")]
    UnexpectedToken {
        /// The token; empty at the end of the text.
        found: String,
        /// What the grammar requires.
        expected: &'static str,
    },
    /// The values after `in` or `notin` do not start with a parenthesis.
    #[error("found '{found}' expected: '('")]
    MissingParenthesis {
        /// The token; empty at the end of the text.
        found: String,
    },
    /// One requirement of a label selector is invalid.
    #[error("unable to parse requirement: {source}")]
    Requirement {
        /// What is wrong with it.
        source: Box<SelectorError>,
    },
    /// A requirement is well-formed, but its key or its values are invalid.
    #[error("{}", RequirementErrors(.errors))]
    InvalidRequirement {
        /// All errors of the requirement.
        errors: Vec<RequirementError>,
    },
    /// A label selector object has an unknown operator.
    #[error("{operator:?} is not a valid label selector operator")]
    UnknownOperator {
        /// The operator.
        operator: String,
    },
    /// A label selector object has a value of the wrong type.
    #[error("{path}: expected {expected}")]
    Malformed {
        /// Where, such as `matchExpressions[0].key`.
        path: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A term of a field selector has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    UnknownTerm {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash in a field selector precedes a character that needs no escape.
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    InvalidEscape {
        /// The backslash and the character after it.
        sequence: String,
    },
    /// A value in a field selector has a character that must be escaped. (Servers print its code point.)
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*character))]
    Unescaped {
        /// The character.
        character: char,
    },
    /// The name of a field has a character that a field selector cannot represent.
    #[error("invalid field selector: field {field:?} contains a reserved character")]
    InvalidField {
        /// The name.
        field: String,
    },
}

impl SelectorError {
    pub(super) fn token(found: &str, expected: &'static str) -> Self {
        SelectorError::UnexpectedToken { found: found.into(), expected }
    }
}

/// One error of a label requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError {
    /// The invalid part: `key`, `values`, `values[0]`, …; `<nil>` if the server names none.
    pub field: String,
    /// The invalid value, in the format of the server.
    pub value: String,
    /// What is wrong with it.
    pub detail: String,
}

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Invalid value: {}: {}", self.field, self.value, self.detail)
    }
}

/// Prints one error bare and several in brackets.
struct RequirementErrors<'a>(&'a [RequirementError]);

impl fmt::Display for RequirementErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = self.0 {
            return error.fmt(f);
        }
        f.write_str("[")?;
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            error.fmt(f)?;
        }
        f.write_str("]")
    }
}
