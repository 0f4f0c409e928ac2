//! [`ServingPair`]: a certificate chain with its key. [`CurrentPair`]: the one that a server uses now.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use evenkeel_client::tls::default_provider;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::TlsError;

/// A certificate chain with its private key, which belong together.
pub struct ServingPair {
    certified: Arc<CertifiedKey>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl ServingPair {
    /// Parses a chain, the server's certificate first, and its key.
    ///
    /// # Errors
    /// If there is no certificate or no key, if either is malformed, or if they do not belong together. An expired
    /// certificate is no error.
    pub fn from_pem(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<Self, TlsError> {
        // The PEM parser's errors are dropped on purpose: they quote lines, and a line may be the key.
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(|_| TlsError::NoCertificate)?;
        let Some(leaf) = chain.first() else { return Err(TlsError::NoCertificate) };
        let (not_before, not_after) = validity(leaf)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let key = provider.key_provider.load_private_key(key).map_err(|_| TlsError::NoKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // `Unknown`: the provider cannot tell.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err(TlsError::Mismatch),
            Err(error) => return Err(TlsError::Malformed { problem: error.to_string() }),
        }
        Ok(ServingPair { certified: Arc::new(certified), not_before, not_after })
    }

    /// Returns the start of the certificate's validity.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Returns the end of the certificate's validity.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Returns the chain in DER, the server's certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Returns whether a client that dials this name or address accepts the certificate for it.
    pub fn is_for(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let leaf = self.certified.cert.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        leaf.is_some_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }

    /// Returns whether a client that trusts the authorities of this bundle, in PEM, accepts the chain at this time. Names are not
    /// compared: see [`is_for`](Self::is_for).
    pub fn is_trusted_by(&self, bundle: &[u8], now: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(bundle).flatten() {
            // One that cannot be used verifies nothing.
            let _ = roots.add(authority);
        }
        let Some((leaf, intermediates)) = self.certified.cert.split_first() else { return false };
        let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let (Ok(leaf), Some(provider)) = (ParsedCertificate::try_from(leaf), default_provider()) else { return false };
        let algorithms = provider.signature_verification_algorithms.all;
        let now = UnixTime::since_unix_epoch(now);
        verify_server_cert_signed_by_trust_anchor(&leaf, &roots, intermediates, now, algorithms).is_ok()
    }

    /// Returns whether both have the same chain, and so the same public key.
    fn is_same_as(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingPair")
            .field("certificates", &self.certified.cert.len())
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

fn validity(leaf: &[u8]) -> Result<(Timestamp, Timestamp), TlsError> {
    let malformed = |problem: String| TlsError::Malformed { problem };
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf).map_err(|error| malformed(error.to_string()))?;
    let time = |time: x509_parser::time::ASN1Time| {
        Timestamp::from_second(time.timestamp()).map_err(|error| malformed(error.to_string()))
    };
    Ok((time(leaf.validity().not_before)?, time(leaf.validity().not_after)?))
}

/// The pair that a server uses for new handshakes. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct CurrentPair(Arc<RwLock<Option<Arc<ServingPair>>>>);

impl CurrentPair {
    /// Returns a slot without a pair: handshakes fail until [`set`](Self::set) is called.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns a slot with this pair.
    pub fn new(pair: ServingPair) -> Self {
        CurrentPair(Arc::new(RwLock::new(Some(Arc::new(pair)))))
    }

    /// Returns the pair of the next handshake.
    pub fn get(&self) -> Option<Arc<ServingPair>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the pair of the handshakes from now on, and returns whether its chain is another than before.
    pub fn set(&self, pair: ServingPair) -> bool {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.as_ref().is_none_or(|current| !current.is_same_as(&pair));
        if is_new {
            *current = Some(Arc::new(pair));
        }
        is_new
    }
}

impl ResolvesServerCert for CurrentPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get().map(|pair| Arc::clone(&pair.certified))
    }
}
