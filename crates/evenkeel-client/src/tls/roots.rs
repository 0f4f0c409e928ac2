//! Whom we trust: the authorities of the configuration, or else the system's.

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

/// Whom we trust.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub(super) store: Arc<RootCertStore>,
    /// The certificates of the configuration; none if the system's are used.
    pub(super) given: Arc<[CertificateDer<'static>]>,
}

/// Why there are no authorities to trust.
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
    /// Trusts nobody.
    fn nobody() -> Self {
        Roots { store: Arc::new(RootCertStore::empty()), given: Arc::default() }
    }

    /// The system's roots, read when first needed and then kept for the life of the process. `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` lead elsewhere, as they do for Go's programs.
    pub(super) fn system() -> Self {
        static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        Roots { store: Arc::clone(SYSTEM.get_or_init(read_system)), given: Arc::default() }
    }

    /// The roots in this text. Certificates that cannot be used are passed over, as long as there is one that can.
    pub(super) fn parse(pem: &[u8]) -> Result<Self, RootsError> {
        if pem.is_empty() {
            return Err(RootsError::Empty);
        }
        let given: Arc<[_]> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let mut store = RootCertStore::empty();
        let (added, ignored) = store.add_parsable_certificates(given.iter().cloned());
        if ignored > 0 {
            tracing::warn!(added, ignored, "some of the given certificate authorities cannot be used");
        }
        if added == 0 { Err(RootsError::NoCertificate) } else { Ok(Roots { store: Arc::new(store), given }) }
    }
}

/// The roots to begin with, and the digest of their file if they are in one. Blocks.
///
/// A file that is there but empty is taken at its word: nobody is trusted until it is filled. Text at hand that is empty
/// is a mistake, because it will never be filled.
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
            tracing::warn!(path = %path.display(), "the certificate authority's file is empty: no server is trusted");
            Roots::nobody()
        }
        Err(error) => return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, error))),
    };
    Ok((roots, digest([text.as_slice()])))
}

/// The roots in this file, if it is not what the digest says. Blocks.
pub(super) fn changed(path: &Path, known: &Digest) -> Result<Option<(Roots, Digest)>, RootsError> {
    let text = small_file::read(path, MAX_PEM).map_err(RootsError::Read)?;
    let digest = digest([text.as_slice()]);
    if digest == *known { Ok(None) } else { Ok(Some((Roots::parse(&text)?, digest))) }
}

fn read_system() -> Arc<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
    }
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(added, ignored, "read the system's certificate authorities");
    if added == 0 {
        tracing::warn!("the system has no certificate authorities: no server is trusted without a configured one");
    }
    Arc::new(store)
}
