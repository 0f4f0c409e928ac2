//! Conversion between the versions of a custom resource, through a hub.
//!
//! ```text
//!  v1 ──to_hub──► v3 (hub) ──from_hub──► v2
//! ```

mod endpoint;
mod kind;
mod review;
mod rules;

#[cfg(test)]
mod tests;

pub(crate) use endpoint::Conversions;
pub use kind::{Conversion, ConversionError};
