//! The crypto provider of TLS: the one that a configuration passes, else the one that a feature compiles in.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

use crate::config::{ConfigError, Tls};

/// Returns the provider of configurations without a [`Tls::crypto_provider`]: that of the feature `aws-lc-rs` or `fips`,
/// else that of the feature `ring`. `None` without these features.
///
/// It is never the process default of rustls, and never installed as such. With the feature `fips`, its
/// [`fips`](CryptoProvider::fips) is true.
pub fn default_provider() -> Option<Arc<CryptoProvider>> {
    static PROVIDER: LazyLock<Option<Arc<CryptoProvider>>> = LazyLock::new(|| compiled().map(Arc::new));
    PROVIDER.clone()
}

/// A feature that is asked for by name wins over the default one.
#[cfg(feature = "aws-lc-rs")]
fn compiled() -> Option<CryptoProvider> {
    Some(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
fn compiled() -> Option<CryptoProvider> {
    Some(rustls::crypto::ring::default_provider())
}

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
fn compiled() -> Option<CryptoProvider> {
    None
}

/// Returns the provider of a configuration.
pub(crate) fn provider_of(tls: &Tls) -> Result<Arc<CryptoProvider>, ConfigError> {
    chosen(tls.crypto_provider.as_ref(), default_provider())
}

/// Returns the passed provider, else the compiled one.
pub(super) fn chosen(
    passed: Option<&Arc<CryptoProvider>>,
    compiled: Option<Arc<CryptoProvider>>,
) -> Result<Arc<CryptoProvider>, ConfigError> {
    passed.cloned().or(compiled).ok_or(ConfigError::NoCryptoProvider)
}

/// A passed provider, equal to itself only. Keeps it alive, so that its address is not reused.
#[derive(Clone)]
pub(crate) struct ProviderIdentity(Arc<CryptoProvider>);

impl ProviderIdentity {
    /// Returns the identity of the provider that a configuration passes, if it does.
    pub(crate) fn of(tls: &Tls) -> Option<Self> {
        tls.crypto_provider.clone().map(ProviderIdentity)
    }
}

impl PartialEq for ProviderIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProviderIdentity {}

impl Hash for ProviderIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl std::fmt::Debug for ProviderIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", Arc::as_ptr(&self.0))
    }
}
