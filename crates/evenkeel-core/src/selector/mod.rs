//! Selectors: which objects a list or a watch is about, by label and by field.
//!
//! Both kinds parse what API servers parse, print what client-go prints and refuse what servers refuse, with the same
//! words: an API server can put the error's text into its answer as it is.

mod error;
mod field;
mod label;
mod lexer;
mod names;

pub use error::{RequirementError, SelectorError};
pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelOperator, LabelSelector, Requirement};
