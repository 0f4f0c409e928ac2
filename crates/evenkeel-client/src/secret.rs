//! [`Secret`]: a text that is never shown.

use std::fmt;
use std::sync::Arc;

use evenkeel_base::planted::{Defect, is_planted};
use zeroize::Zeroizing;

/// A token, a password or a private key in PEM.
///
/// `Debug` prints `[redacted]`, there is no `Display` and no `Serialize`, and the memory is overwritten when the last
/// clone is dropped. Clones share one copy of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Wraps the text; the caller should keep no copy.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Arc::new(Zeroizing::new(text.into())))
    }

    /// Returns the text, for sending it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_planted(Defect::TokenInDebug) {
            return f.write_str(self.expose());
        }
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::new(text)
    }
}
