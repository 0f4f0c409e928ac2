//! What can be wrong with a selector, in the words of the API server.

use std::fmt;

/// A selector that cannot be understood. `Display` is the text that an API server answers with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A label selector has one thing where another should be.
    #[error("found '{found}', expected: {expected}")]
    UnexpectedToken {
        /// What stands there; empty at the end of the text.
        found: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// The values after `in` or `notin` do not start with a parenthesis.
    #[error("found '{found}' expected: '('")]
    MissingParenthesis {
        /// What stands there; empty at the end of the text.
        found: String,
    },
    /// One requirement of a label selector is wrong.
    #[error("unable to parse requirement: {source}")]
    Requirement {
        /// What is wrong with it.
        source: Box<SelectorError>,
    },
    /// A requirement is well-formed, but its key or its values are not allowed.
    #[error("{}", Faults(.faults))]
    InvalidRequirement {
        /// Every fault of the requirement.
        faults: Vec<RequirementError>,
    },
    /// A label selector object names an operator that there is not.
    #[error("{operator:?} is not a valid label selector operator")]
    UnknownOperator {
        /// The operator.
        operator: String,
    },
    /// A label selector object has the wrong JSON form.
    #[error("{path}: expected {expected}")]
    Malformed {
        /// Where, such as `matchExpressions[0].key`.
        path: String,
        /// What should be there.
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
    /// A backslash in a field selector stands before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    InvalidEscape {
        /// The backslash and what follows it.
        sequence: String,
    },
    /// A value in a field selector has a character that must be escaped. (Servers print the character's number.)
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*character))]
    Unescaped {
        /// The character.
        character: char,
    },
    /// A field's name has a character that no field selector can carry.
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

/// One fault of a label requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError {
    /// The part that is at fault: `key`, `values`, `values[0]`, …; `<nil>` when the server names none.
    pub field: String,
    /// The offending value, printed the way the server prints it.
    pub value: String,
    /// What is wrong with it.
    pub detail: String,
}

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Invalid value: {}: {}", self.field, self.value, self.detail)
    }
}

/// Prints one fault bare and several in brackets.
struct Faults<'a>(&'a [RequirementError]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = self.0 {
            return fault.fmt(f);
        }
        f.write_str("[")?;
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            fault.fmt(f)?;
        }
        f.write_str("]")
    }
}
