//! [`ResourceVersion`]: which state of the store an object or a list was read from.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A resource version: a text to hand back to the server, and, when it is well-formed, a number that can be compared.
///
/// Servers promise an order since Kubernetes 1.35 for versions that are decimal digits without a leading zero, and only
/// between objects of the same resource. For anything else, including `0` and the empty version, there is no order and
/// [`compare`](Self::compare) says so; equality of texts always means equality of versions.
///
/// ```
/// use evenkeel_core::ResourceVersion;
///
/// assert!(ResourceVersion::new("100").is_newer_than(&ResourceVersion::new("99")));
/// assert_eq!(ResourceVersion::new("abc").compare(&ResourceVersion::new("99")), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Arc<str>);

impl ResourceVersion {
    /// The version with this text.
    pub fn new(text: &str) -> Self {
        ResourceVersion(text.into())
    }

    /// The version as the server wrote it; empty if it gave none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the version is decimal digits without a leading zero. There is no limit on their number.
    pub fn is_well_formed(&self) -> bool {
        !self.0.is_empty() && !self.0.starts_with('0') && self.0.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Which of two versions is newer; `None` unless both are well-formed.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        if !self.is_well_formed() || !other.is_well_formed() {
            return None;
        }
        Some(self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    /// Whether this version is known to be newer than the other.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Greater)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests;
