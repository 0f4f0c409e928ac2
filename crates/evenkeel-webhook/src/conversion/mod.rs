//! Conversion between the versions of a custom resource, through a hub.
//!
//! ```text
//!  v1 ──to_hub──► v3 (hub) ──from_hub──► v2
//! ```

mod check;
mod endpoint;
mod kind;
mod lost_fields;
mod review;
mod rules;

#[cfg(test)]
mod tests;

pub use check::{ConversionCheck, ConversionCheckError};
pub(crate) use endpoint::Conversions;
pub(crate) use kind::KindConverter;
pub use kind::{Conversion, ConversionError};
