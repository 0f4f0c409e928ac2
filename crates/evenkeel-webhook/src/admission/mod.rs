//! Admission reviews: requests, hooks, verdicts.

mod decode;
mod hook;
mod mutating;
mod request;
pub(crate) mod review;
mod validating;
mod verdict;

#[cfg(test)]
mod tests;

pub use decode::DecodeObjectError;
pub(crate) use decode::decode;
pub(crate) use hook::{ErasedHook, HookKind, ReviewFault, Reviewed};
pub use hook::{Hook, HookHandler};
pub use mutating::{Defaulter, Mutating};
pub use request::{AdmissionRequest, Operation};
pub use validating::Validating;
pub use verdict::{HookError, Verdict};
