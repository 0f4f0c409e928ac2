//! The default identity of a candidate.

use crate::environment::hostname;

/// Returns the host name, an underscore and a random UUID, so that two processes on one host differ.
pub(super) fn default_identity() -> String {
    format!("{}_{}", hostname(), random_uuid())
}

/// Returns a version 4 UUID. Identities must differ; they are not secret.
fn random_uuid() -> String {
    let bits = fastrand::u128(..);
    let bits = (bits & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let text = format!("{bits:032x}");
    let part = |from, to| text.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests;
