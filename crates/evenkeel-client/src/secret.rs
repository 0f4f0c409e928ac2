//! [`Secret`]: text that must never be seen.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A token, a password or a private key in PEM.
///
/// `Debug` prints `[redacted]`, there is no `Display` and no `Serialize`, and the memory is overwritten when the last
/// clone is dropped. Clones share one copy of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes the text; nobody else should keep it.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Arc::new(Zeroizing::new(text.into())))
    }

    /// The text, for whoever has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
