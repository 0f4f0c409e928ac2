//! TLS: trust roots, client identity, and their renewal while the client runs.
//!
//! rustls supports TLS 1.2 and 1.3. Its crypto provider is passed explicitly everywhere: the process default provider,
//! or its absence, has no effect here. It is [`Tls::crypto_provider`](crate::config::Tls::crypto_provider) if that is
//! set, else the one of the feature `aws-lc-rs`, `fips` or `ring`; of several features the first in this order counts.
//! Revocation is not checked, as in client-go: clusters publish neither lists nor responders.

mod dial;
mod digest;
mod error;
mod identity;
mod material;
mod provider;
mod roots;
mod rotating;
mod schedule;
mod slot;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::config::{ConfigError, HttpVersions, Tls};

pub(crate) use dial::{Dialer, handshake};
pub(crate) use digest::{Digest, digest};
pub use error::TlsError;
pub use provider::default_provider;
pub(crate) use provider::{ProviderIdentity, provider_of};
pub use rotating::RotatingIdentity;
pub use rustls::crypto::CryptoProvider;
pub(crate) use slot::{ClientIdentity, IdentitySlot};

/// The maximum size of a PEM file; system bundles have a few hundred KiB.
pub(crate) const MAX_PEM: u64 = 4 << 20;

/// Returns the name, or the address without brackets, that a certificate must be for.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, ConfigError> {
    // The trailing dot of a fully qualified name is not part of certificates.
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned())
        .map_err(|_| ConfigError::Invalid { problem: format!("{name:?} is no name that a certificate could be for") })
}

/// Returns the configuration for proxies: system roots, no client certificate, HTTP/1.1, and the crypto provider of
/// these settings.
pub(crate) fn for_proxies(tls: &Tls) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = provider_of(tls)?;
    let judge = Arc::new(verify::ServerVerifier::strict(roots::Roots::system(), &provider));
    material::configure(provider, judge, None, HttpVersions::Http1Only)
}
