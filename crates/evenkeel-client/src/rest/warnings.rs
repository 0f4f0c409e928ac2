//! The server's warnings: `Warning` headers, and who hears them.

use std::fmt;

/// A warning of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The code; 299 is what API servers send.
    pub code: u16,
    /// Who warns.
    pub agent: String,
    /// The warning, with control characters removed.
    pub text: String,
}

/// Hears the server's warnings.
pub trait WarningHandler: fmt::Debug + Send + Sync {
    /// Called once per warning. Must not block.
    fn warning(&self, warning: &Warning);
}
