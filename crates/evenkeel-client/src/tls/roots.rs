//! The trust roots: the configured authorities, or else the system's.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::MAX_PEM;
use super::digest::{Digest, digest};
use crate::config::{ConfigError, Pem};
use crate::small_file;

/// The trust roots.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub(super) store: Arc<RootCertStore>,
    /// The configured certificates; empty if the system's are used.
    pub(super) given: Arc<[CertificateDer<'static>]>,
}

/// Why there are no trust roots.
#[derive(Debug, thiserror::Error)]
pub(super) enum RootsError {
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("there is no certificate in it")]
    NoCertificate,
}

impl Roots {
    /// Returns an empty set: no server is trusted.
    fn empty() -> Self {
        Roots { store: Arc::new(RootCertStore::empty()), given: Arc::default() }
    }

    /// Returns the system's roots, read on first use and cached for the life of the process. `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` override them, as in Go.
    pub(super) fn system() -> Self {
        static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        Roots { store: Arc::clone(SYSTEM.get_or_init(read_system)), given: Arc::default() }
    }

    /// Parses the roots of a PEM text. Unusable certificates are skipped, as long as one is usable.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, RootsError> {
        if pem.is_empty() {
            return Err(RootsError::Empty);
        }
        let given: Arc<[_]> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let mut store = RootCertStore::empty();
        let (added, ignored) = store.add_parsable_certificates(given.iter().cloned());
        if ignored > 0 {
            tracing::warn!(added, ignored, "some configured certificate authorities are unusable; ignoring them");
        }
        if added == 0 { Err(RootsError::NoCertificate) } else { Ok(Roots { store: Arc::new(store), given }) }
    }
}

/// Returns the initial roots, and the digest of their file if they are in one. Blocks.
///
/// An empty file is accepted: no server is trusted until it is filled. An empty inline text is an error, because it
/// will never be filled.
pub(super) fn first(ca: Option<&Pem>) -> Result<(Roots, Digest), ConfigError> {
    let path = match ca {
        None => return Ok((Roots::system(), Digest::default())),
        Some(Pem::Data(text)) => {
            let problem =
                |error| ConfigError::Invalid { problem: format!("the certificate authority's data: {error}") };
            return Ok((Roots::parse(text.as_bytes()).map_err(problem)?, Digest::default()));
        }
        Some(Pem::File(path)) => path,
    };
    let unreadable = |source| ConfigError::Read { what: "the certificate authority", path: path.clone(), source };
    let text = small_file::read(path, MAX_PEM).map_err(unreadable)?;
    let roots = match Roots::parse(&text) {
        Ok(roots) => roots,
        Err(RootsError::Empty) => {
            tracing::warn!(path = %path.display(), "the certificate authority file is empty; no server is trusted");
            Roots::empty()
        }
        Err(error) => return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, error))),
    };
    Ok((roots, digest([text.as_slice()])))
}

/// Returns the roots of this file if its digest has changed. Blocks.
pub(super) fn changed(path: &Path, known: &Digest) -> Result<Option<(Roots, Digest)>, RootsError> {
    let text = small_file::read(path, MAX_PEM).map_err(RootsError::Read)?;
    let digest = digest([text.as_slice()]);
    if digest == *known { Ok(None) } else { Ok(Some((Roots::parse(&text)?, digest))) }
}

fn read_system() -> Arc<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some system certificate authorities cannot be read; ignoring them");
    }
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(added, ignored, "read the system's certificate authorities");
    if added == 0 {
        tracing::warn!("the system has no certificate authorities: no server is trusted without a configured one");
    }
    Arc::new(store)
}
