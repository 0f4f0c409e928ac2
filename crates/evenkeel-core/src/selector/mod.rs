//! Label and field selectors.
//!
//! Both parse the grammar of API servers, print as client-go does, and return errors with the text of API servers.

mod error;
mod field;
mod label;
mod lexer;
mod names;

pub use error::{RequirementError, SelectorError};
pub use field::{FieldOperator, FieldSelector, FieldTerm};
pub use label::{LabelOperator, LabelSelector, Requirement};
pub(crate) use names::quote;
