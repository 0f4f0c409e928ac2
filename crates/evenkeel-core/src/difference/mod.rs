//! Differences between JSON values: a typed change laid over the JSON it was decoded from, and JSON patches. Sans-IO.
//!
//! ```text
//!  before ─┐
//!  after  ─┴─► overlay ──► the object as it should be ─┐
//!  raw object ──┴──────────────────────────────────────┴─► json_patch ──► operations
//! ```
//!
//! `before` and `after` are encoded from a Rust type, which may have fewer fields than the raw object. The client computes
//! updates and patches with it, webhooks the patches of their answers.

mod alignment;
mod json_patch;
mod overlay;

#[cfg(test)]
mod tests;

pub use alignment::is_identity;
pub use json_patch::{ListPatch, PatchOperation, json_patch};
pub use overlay::overlay;
