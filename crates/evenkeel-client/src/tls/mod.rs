//! TLS: trust roots, client identity, and their renewal while the client runs.
//!
//! rustls supports TLS 1.2 and 1.3 with the ring provider, which is passed explicitly everywhere: the process default
//! provider, or its absence, has no effect here. Revocation is not checked, as in client-go: clusters publish neither
//! lists nor responders.

mod dial;
mod digest;
mod error;
mod identity;
mod material;
mod roots;
mod schedule;
mod slot;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, LazyLock};

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;

use crate::config::{ConfigError, HttpVersions};

pub(crate) use dial::{Dialer, handshake};
pub(crate) use digest::{Digest, digest};
pub use error::TlsError;
pub(crate) use slot::{ClientIdentity, IdentitySlot};

/// Returns the crypto provider, never the process default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

/// The maximum size of a PEM file; system bundles have a few hundred KiB.
pub(crate) const MAX_PEM: u64 = 4 << 20;

/// Returns the name, or the address without brackets, that a certificate must be for.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, ConfigError> {
    // The trailing dot of a fully qualified name is not part of certificates.
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned())
        .map_err(|_| ConfigError::Invalid { problem: format!("{name:?} is no name that a certificate could be for") })
}

/// Returns the configuration for proxies: system roots, no client certificate, HTTP/1.1.
pub(crate) fn for_proxies() -> Result<Arc<ClientConfig>, ConfigError> {
    let judge = Arc::new(verify::ServerVerifier::strict(roots::Roots::system()));
    material::configure(judge, None, HttpVersions::Http1Only)
}
