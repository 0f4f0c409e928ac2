//! Accessors of selectors for the other crates of evenkeel.

use super::{FieldOperator, FieldSelector, FieldTerm};

impl FieldSelector {
    /// Returns the terms, sorted by their text.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns the value that the selector requires of a field, if any.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.operator == FieldOperator::Equals && term.field == field)
            .map(|term| term.value.as_str())
    }
}
