//! Servers that only answer authenticated and authorised clients. controller-runtime's secure metrics.
//!
//! ```text
//!  request ──► TLS ──► AccessFilter ──► site
//!                        │ token: TokenReview, kept for a minute
//!                        └ user, verb, path: SubjectAccessReview, kept for 5 minutes or 30 seconds
//! ```

mod certificate;
mod filter;
mod reviewer;
mod serving;
mod verdicts;

#[cfg(test)]
mod tests;

pub(crate) use filter::AccessFilter;
pub use serving::SecureServing;
pub(crate) use serving::Security;
