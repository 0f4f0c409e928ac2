//! [`SecureServing`]: configures TLS and the filter of a server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_client::Client;
use evenkeel_client::tls::default_provider;
use rustls::crypto::CryptoProvider;

use super::AccessFilter;
use super::certificate::ServingCertificate;
use crate::tls::{CurrentPair, ServerTls, TlsError};

/// TLS, authentication and authorisation of a server, for [`ServerBuilder::secured`](crate::health::ServerBuilder::secured).
///
/// A client sends a bearer token. A TokenReview authenticates it, and a SubjectAccessReview authorises the user for the path
/// and the method in lower case. So the program needs the right to create `tokenreviews` and `subjectaccessreviews`, and a
/// scraper needs the verb `get` for the `nonResourceURLs` `/metrics`.
///
/// # Guarantees
///
/// - It fails closed. While the API server is away, only verdicts that are still remembered count.
/// - A verdict about a token is remembered for a minute, a permission for 5 minutes, a refusal for 30 seconds; 1,024 of each
///   kind. They are found by a keyed hash: tokens are not kept.
/// - Requests with the same token share one review. At most eight reviews run at once.
/// - ALPN offers `http/1.1` only.
#[derive(Clone)]
pub struct SecureServing {
    client: Client,
    audiences: Vec<String>,
    directory: PathBuf,
    slot: Option<CurrentPair>,
    provider: Option<Arc<CryptoProvider>>,
}

impl SecureServing {
    /// Returns the settings of a server whose clients are reviewed through this client.
    pub fn reviewed_by(client: &Client) -> Self {
        SecureServing {
            client: client.clone(),
            audiences: Vec::new(),
            directory: std::env::temp_dir().join("k8s-metrics-server").join("serving-certs"),
            slot: None,
            provider: None,
        }
    }

    /// Accepts only tokens for one of these audiences. Default: that of the API server.
    pub fn audiences(mut self, audiences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.audiences = audiences.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the directory of `tls.crt` and `tls.key`, which are reloaded when they change. Default:
    /// `k8s-metrics-server/serving-certs` in the directory for temporary files.
    ///
    /// While there are no files, the server makes a certificate for `localhost` and renews it after two thirds of its
    /// validity of a year (feature `certificates`).
    pub fn certificate_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Serves the pair of this slot instead of files. Its owner renews it.
    pub fn certificate(mut self, slot: &CurrentPair) -> Self {
        self.slot = Some(slot.clone());
        self
    }

    /// Sets the crypto provider of TLS. Default: that of the feature `aws-lc-rs` or `ring`.
    pub fn crypto_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Reads or makes the certificate.
    pub(crate) fn prepare(self) -> Result<Security, TlsError> {
        let provider = self.provider.or_else(default_provider).ok_or(TlsError::NoCryptoProvider)?;
        let mut key = [0; 64];
        let filled = provider.secure_random.fill(&mut key);
        filled.map_err(|_| TlsError::Setup { problem: "the crypto provider has no random numbers".to_owned() })?;
        let filter = AccessFilter::new(Box::new(self.client), self.audiences, &key);
        let (slot, certificate) = match self.slot {
            Some(slot) => (slot, None),
            None => {
                let slot = CurrentPair::empty();
                let certificate = ServingCertificate::prepare(self.directory, &slot, &provider)?;
                (slot, Some(certificate))
            }
        };
        Ok(Security { tls: ServerTls::new(&slot, Some(provider))?, filter, certificate })
    }
}

impl From<&Client> for SecureServing {
    fn from(client: &Client) -> Self {
        SecureServing::reviewed_by(client)
    }
}

impl fmt::Debug for SecureServing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureServing")
            .field("audiences", &self.audiences)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// What secures a server that starts.
#[derive(Debug)]
pub(crate) struct Security {
    pub(crate) tls: ServerTls,
    pub(crate) filter: AccessFilter,
    /// Renews the certificate; `None` if its owner does.
    pub(crate) certificate: Option<ServingCertificate>,
}
