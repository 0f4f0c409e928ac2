//! [`ResourceVersion`]: the version of an object or a list.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A resource version: opaque text for requests and, if well-formed, a number that can be compared.
///
/// Since Kubernetes 1.35 servers guarantee an order of versions that are decimal digits without a leading zero, between objects of
/// one resource. Other versions, including `0` and the empty one, have no order: [`compare`](Self::compare) returns `None`. Equal
/// texts always mean equal versions.
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
    /// Returns the version with this text.
    pub fn new(text: &str) -> Self {
        ResourceVersion(text.into())
    }

    /// Returns the text as the server sent it; empty if the server sent none.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the version is decimal digits, of any number, without a leading zero.
    fn is_well_formed(&self) -> bool {
        !self.0.is_empty() && !self.0.starts_with('0') && self.0.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Compares two versions. Returns `None` unless both are well-formed.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        if !self.is_well_formed() || !other.is_well_formed() {
            return None;
        }
        Some(self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    /// Returns whether this version is known to be newer than the other.
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
