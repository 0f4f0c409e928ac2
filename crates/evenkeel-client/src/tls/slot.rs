//! [`IdentitySlot`]: a client certificate that its source renews: an exec plugin, or a certificate manager.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::digest::Digest;
use super::identity::{self, IdentityError, Shown};
use crate::config::{Identity, Pem, PrivateKey};
use crate::secret::Secret;

/// A client certificate with its key, and the time it is valid in.
#[derive(Debug)]
pub(crate) struct ClientIdentity {
    shown: Shown,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Why a client certificate cannot be used. Never contains anything of the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientIdentityError {
    #[error("{0}")]
    Identity(#[source] IdentityError),
    #[error("its validity cannot be read")]
    Validity,
}

impl ClientIdentity {
    /// Checks a certificate and its key in PEM.
    pub(crate) fn parse(
        certificate: &str,
        key: &Secret,
        provider: &CryptoProvider,
    ) -> Result<Self, ClientIdentityError> {
        let identity = Identity { certificate: Pem::Data(certificate.to_owned()), key: PrivateKey::Data(key.clone()) };
        let shown = identity::load(&identity, provider).map_err(ClientIdentityError::Identity)?;
        let validity = shown.key.end_entity_cert().ok().and_then(|leaf| {
            let (_, leaf) = x509_parser::parse_x509_certificate(leaf).ok()?;
            let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
            Some((time(leaf.validity().not_before)?, time(leaf.validity().not_after)?))
        });
        let (not_before, not_after) = validity.ok_or(ClientIdentityError::Validity)?;
        Ok(ClientIdentity { shown, not_before, not_after })
    }

    pub(crate) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    pub(crate) fn not_after(&self) -> Timestamp {
        self.not_after
    }
}

/// The current client certificate of a source that renews it. Connections opened later use the new one.
#[derive(Debug)]
pub(crate) struct IdentitySlot {
    id: u64,
    epoch: AtomicU64,
    current: Mutex<Option<ClientIdentity>>,
}

impl IdentitySlot {
    /// Returns an empty slot.
    pub(crate) fn new() -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(IdentitySlot { id, epoch: AtomicU64::new(0), current: Mutex::default() })
    }

    /// Returns the number of the slot in this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Sets the certificate, and returns the one that it replaces. The same one again is no change.
    pub(crate) fn set(&self, identity: Option<ClientIdentity>) -> Option<ClientIdentity> {
        let digest = |identity: &Option<ClientIdentity>| identity.as_ref().map(|identity| identity.shown.digest);
        let mut current = self.lock();
        if digest(&current) == digest(&identity) {
            return None;
        }
        self.epoch.fetch_add(1, Ordering::Release);
        std::mem::replace(&mut *current, identity)
    }

    /// Returns how often the certificate has changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the certificate with its digest, and how often it has changed.
    pub(super) fn current(&self) -> (u64, Option<(Arc<CertifiedKey>, Digest)>) {
        let current = self.lock();
        let shown = current.as_ref().map(|identity| (Arc::clone(&identity.shown.key), identity.shown.digest));
        (self.epoch(), shown)
    }

    fn lock(&self) -> MutexGuard<'_, Option<ClientIdentity>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows no certificate.
#[derive(Debug)]
pub(super) struct NoIdentity;

impl ResolvesClientCert for NoIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}
