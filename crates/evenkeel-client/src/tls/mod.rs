//! TLS: what we trust, what we show, and how both are renewed while the client runs.
//!
//! rustls speaks TLS 1.2 and 1.3 with the ring provider, which is passed explicitly everywhere: a program that chooses
//! another provider for its process, or none, changes nothing here. Revocation is not checked, as in client-go: clusters
//! publish neither lists nor responders.

mod dial;
mod digest;
mod error;
mod identity;
mod material;
mod roots;
mod schedule;
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

/// The one provider of cryptography, never the process's default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

/// The most that is read from a file of certificates or of a key; the bundles that systems ship have a few hundred KiB.
const MAX_PEM: u64 = 4 << 20;

/// The name, or the address without brackets, that a certificate has to be for.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, ConfigError> {
    // The dot of the root is a matter of the name system; certificates do not have it.
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned())
        .map_err(|_| ConfigError::Invalid { problem: format!("{name:?} is no name that a certificate could be for") })
}

/// For connections to proxies: the system's authorities, nothing of ours to show, HTTP/1.1.
pub(crate) fn for_proxies() -> Result<Arc<ClientConfig>, ConfigError> {
    let judge = Arc::new(verify::Judge::strict(roots::Roots::system()));
    material::configure(judge, None, HttpVersions::Http1Only)
}
