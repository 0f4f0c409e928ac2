//! [`CertificateStore`]: where certificates survive a restart.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::secret::Secret;
use crate::transport::BoxError;

/// A certificate with its private key, in PEM. `Debug` does not show the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificatePair {
    /// The certificate, followed by its intermediates.
    pub certificate: String,
    /// The private key.
    pub key: Secret,
}

impl CertificatePair {
    /// Returns a pair.
    pub fn new(certificate: impl Into<String>, key: impl Into<Secret>) -> Self {
        CertificatePair { certificate: certificate.into(), key: key.into() }
    }
}

/// Stores the certificate of a [`CertificateManager`](super::CertificateManager), and the key of its pending request.
/// [`FileCertificateStore`](super::FileCertificateStore) is one.
///
/// The manager calls it on a thread that may block, one call at a time. The text of an error appears in logs and
/// errors, so it must contain nothing of a key.
pub trait CertificateStore: Send + Sync + 'static {
    /// Returns the current certificate; `None` if there is none yet.
    fn current(&self) -> Result<Option<CertificatePair>, BoxError>;

    /// Makes a certificate the current one, atomically.
    fn update(&self, pair: &CertificatePair) -> Result<(), BoxError>;

    /// Returns the key of the pending request, in PEM. With it the manager continues with the request after a restart;
    /// without it, as by default, it makes another one.
    fn pending_key(&self) -> Result<Option<Secret>, BoxError> {
        Ok(None)
    }

    /// Stores or removes the key of the pending request.
    fn set_pending_key(&self, key: Option<&Secret>) -> Result<(), BoxError> {
        let _ = key;
        Ok(())
    }
}

/// Stores nothing beyond the life of the manager.
#[derive(Debug, Default)]
pub(super) struct MemoryStore(Mutex<(Option<CertificatePair>, Option<Secret>)>);

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, (Option<CertificatePair>, Option<Secret>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertificateStore for MemoryStore {
    fn current(&self) -> Result<Option<CertificatePair>, BoxError> {
        Ok(self.lock().0.clone())
    }

    fn update(&self, pair: &CertificatePair) -> Result<(), BoxError> {
        self.lock().0 = Some(pair.clone());
        Ok(())
    }

    fn pending_key(&self) -> Result<Option<Secret>, BoxError> {
        Ok(self.lock().1.clone())
    }

    fn set_pending_key(&self, key: Option<&Secret>) -> Result<(), BoxError> {
        self.lock().1 = key.cloned();
        Ok(())
    }
}
