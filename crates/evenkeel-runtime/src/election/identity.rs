//! The default identity of a candidate.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::environment::hostname;

/// Returns the host name, an underscore and a random UUID, so that two processes on one host differ.
pub(super) fn default_identity() -> String {
    format!("{}_{}", hostname(), random_uuid())
}

/// Returns a version 4 UUID. The standard library seeds its hashers from the system's randomness, which is enough
/// here: identities must differ; they are not secret.
fn random_uuid() -> String {
    let random = || u128::from(RandomState::new().build_hasher().finish());
    let bits = (random() << 64) | random();
    let bits = (bits & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let text = format!("{bits:032x}");
    let part = |from, to| text.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests;
