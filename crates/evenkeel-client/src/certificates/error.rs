//! [`CertificateError`]: why there is no new certificate.

use std::time::Duration;

use super::machine::AttemptFailure;
use crate::config::ConfigError;
use crate::error::Error;
use crate::transport::BoxError;

/// Why a certificate could not be obtained. Never contains anything of a private key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The configuration of the manager cannot be used.
    #[error("the certificate manager cannot be used")]
    Config(#[from] ConfigError),
    /// A key or a signing request could not be generated.
    #[error("cannot generate {what}: {problem}")]
    Generate {
        /// What was being generated.
        what: &'static str,
        /// The error of the generator.
        problem: String,
    },
    /// The certificate store failed.
    #[error("the certificate store cannot {what}")]
    Store {
        /// What it was called for.
        what: &'static str,
        /// The store's error.
        #[source]
        source: BoxError,
    },
    /// The certificate in the store cannot be used. Removing it makes the manager request another one.
    #[error("the certificate in the certificate store cannot be used: {problem}; remove it to request another one")]
    Stored {
        /// The problem.
        problem: String,
    },
    /// A request to the API server failed.
    #[error("cannot {what} the certificate signing request {name:?}")]
    Api {
        /// What was being done.
        what: &'static str,
        /// The name of the request.
        name: String,
        /// The error of the client.
        #[source]
        source: Box<Error>,
    },
    /// The request was denied.
    #[error("the certificate signing request {name:?} was denied: {reason}: {message}")]
    Denied {
        /// The name of the request.
        name: String,
        /// The reason of the condition.
        reason: String,
        /// The message of the condition.
        message: String,
    },
    /// The signer could not issue the certificate.
    #[error("the signer {signer} failed the certificate signing request {name:?}: {reason}: {message}")]
    Failed {
        /// The name of the request.
        name: String,
        /// The signer.
        signer: String,
        /// The reason of the condition.
        reason: String,
        /// The message of the condition.
        message: String,
    },
    /// The request was not signed in time. The manager waits for the same request again.
    #[error(
        "the certificate signing request {name:?} was not signed within {limit:?}; \
         approve it with `kubectl certificate approve {name}`, or check that a signer serves {signer}"
    )]
    Timeout {
        /// The name of the request.
        name: String,
        /// The signer.
        signer: String,
        /// The limit.
        limit: Duration,
    },
    /// The request was deleted, or replaced by another one of the same name, before it was signed.
    #[error("the certificate signing request {name:?} was deleted before it was signed")]
    Deleted {
        /// The name of the request.
        name: String,
    },
    /// A request of this name exists, with another key or for another signer.
    #[error("another certificate signing request {name:?} exists: {problem}")]
    Incompatible {
        /// The name of the request.
        name: String,
        /// The difference.
        problem: &'static str,
    },
    /// The issued certificate cannot be used.
    #[error("the certificate that {signer} issued for {name:?} cannot be used: {problem}")]
    Issued {
        /// The name of the request.
        name: String,
        /// The signer.
        signer: String,
        /// The problem.
        problem: String,
    },
    /// The manager has stopped.
    #[error("the certificate manager has stopped")]
    Stopped,
}

impl CertificateError {
    pub(super) fn api(what: &'static str, name: &str, source: Error) -> Self {
        CertificateError::Api { what, name: name.to_owned(), source: Box::new(source) }
    }

    /// Returns whether the request was denied.
    pub fn is_denied(&self) -> bool {
        matches!(self, CertificateError::Denied { .. })
    }

    /// Returns whether the request was not signed in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, CertificateError::Timeout { .. })
    }

    /// Returns whether the next attempt may succeed without a change on either side: the server is out of reach, or
    /// overloaded.
    pub fn is_passing(&self) -> bool {
        match self {
            CertificateError::Api { source, .. } => {
                source.status().is_none_or(|status| status.code >= 500 || status.is_too_many_requests())
            }
            CertificateError::Deleted { .. } => true,
            _ => false,
        }
    }

    pub(super) fn failure(&self) -> AttemptFailure {
        match self {
            CertificateError::Denied { .. }
            | CertificateError::Failed { .. }
            | CertificateError::Incompatible { .. }
            | CertificateError::Issued { .. } => AttemptFailure::Refused,
            _ => AttemptFailure::Passing,
        }
    }
}
