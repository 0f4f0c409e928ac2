//! TLS: what we trust, what we show, and how both are renewed while the client runs.
//!
//! rustls speaks TLS 1.2 and 1.3 with the ring provider, which is passed explicitly everywhere: a program that chooses
//! another provider for its process, or none, changes nothing here. Revocation is not checked, as in client-go: clusters
//! publish neither lists nor responders.

mod digest;
mod error;
mod identity;
mod material;
mod roots;
mod schedule;
mod verify;

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

pub use error::TlsError;
pub(crate) use material::Material;

/// The one provider of cryptography, never the process's default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

/// The most that is read from a file of certificates or of a key; the bundles that systems ship have a few hundred KiB.
const MAX_PEM: u64 = 4 << 20;
