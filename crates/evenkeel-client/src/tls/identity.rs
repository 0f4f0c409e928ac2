//! The client certificate and its key.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::MAX_PEM;
use super::digest::{Digest, digest};
use crate::config::{ConfigError, Identity, Pem, PrivateKey};
use crate::small_file;

/// A certificate and its key, and the digest of their source.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) digest: Digest,
}

/// Why a client certificate cannot be used. Never contains anything of the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error("cannot read {what} from {}", path.display())]
    Read {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no certificate where the client certificate should be")]
    NoCertificate,
    #[error(
        "there is no private key where that of the client certificate should be (PKCS #8, PKCS #1 or SEC 1 in PEM, not encrypted)"
    )]
    NoKey,
    #[error("the client certificate's private key is of a kind that cannot be used")]
    UnsupportedKey,
    #[error("the client certificate and the private key do not belong together")]
    Mismatch,
    #[error("the client certificate cannot be used")]
    Certificate(#[source] rustls::Error),
}

impl From<IdentityError> for ConfigError {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Read { what, path, source } => ConfigError::Read { what, path, source },
            IdentityError::Certificate(source) => {
                ConfigError::Invalid { problem: format!("the client certificate: {source}") }
            }
            other => ConfigError::Invalid { problem: other.to_string() },
        }
    }
}

/// Reads and checks certificate and key. Blocks if they are files.
pub(super) fn load(identity: &Identity, provider: &CryptoProvider) -> Result<Shown, IdentityError> {
    let certificate_file;
    let certificate = match &identity.certificate {
        Pem::Data(text) => text.as_bytes(),
        Pem::File(path) => {
            certificate_file = read("the client certificate", path)?;
            &certificate_file
        }
    };
    let key_file;
    let key = match &identity.key {
        PrivateKey::Data(text) => text.expose().as_bytes(),
        PrivateKey::File(path) => {
            key_file = read("the client certificate's private key", path)?;
            &key_file
        }
    };
    Ok(Shown { key: Arc::new(parse(certificate, key, provider)?), digest: digest([certificate, key]) })
}

fn read(what: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    small_file::read(path, MAX_PEM).map_err(|source| IdentityError::Read { what, path: path.to_owned(), source })
}

/// The PEM parser's errors are dropped on purpose: they quote lines, and a line may be the key.
fn parse(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, IdentityError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| IdentityError::NoCertificate)?;
    if chain.is_empty() {
        return Err(IdentityError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| IdentityError::NoKey)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| IdentityError::UnsupportedKey)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => Err(IdentityError::Mismatch),
        Err(error) => Err(IdentityError::Certificate(error)),
    }
}
