//! [`CredentialError`]: why a request has no credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::exec::ExecProblem;
use super::oidc::OidcProblem;
use crate::transport::BoxError;

/// Why a request has no credentials: the exec plugin, the OIDC provider or the token source of the configuration failed.
/// The request was not sent.
///
/// It is the source of a [`TransportError`](crate::transport::TransportError) with the fault
/// [`Credentials`](crate::transport::TransportFault::Credentials). Requests that waited for the same attempt share it.
/// It holds no secret.
#[derive(Clone, Debug)]
pub struct CredentialError {
    user: Option<Arc<str>>,
    problem: Arc<CredentialProblem>,
}

/// The reason of a [`CredentialError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialProblem {
    /// The exec plugin failed.
    #[error("the exec plugin {command:?} {problem}")]
    Exec {
        /// The command, as configured.
        command: String,
        /// Why it returned no credential.
        problem: ExecProblem,
    },
    /// The OIDC provider has no id token.
    #[error("the OIDC provider {issuer}: {problem}")]
    Oidc {
        /// The issuer.
        issuer: String,
        /// Why there is no id token.
        problem: OidcProblem,
    },
    /// The [`TokenSource`](super::TokenSource) returned an error.
    #[error("the token source failed: {0}")]
    TokenSource(BoxError),
    /// The [`TokenSource`](super::TokenSource) did not return in time.
    #[error("the token source did not return within {limit:?}")]
    TokenSourceTimeout {
        /// The timeout.
        limit: Duration,
    },
    /// The [`TokenSource`](super::TokenSource) returned a token that cannot be sent. The token is not shown.
    #[error("the token is empty, or holds a line break or another control character")]
    InvalidToken,
    /// The [`TokenSource`](super::TokenSource) returned a token that had expired.
    #[error("the token expired at {at}, before it was returned; compare the clock of this machine")]
    Expired {
        /// The expiry.
        at: Timestamp,
    },
    /// The [`TokenSource`](super::TokenSource) panicked.
    #[error("the source of credentials panicked")]
    Panicked,
}

impl CredentialError {
    pub(super) fn new(user: Option<Arc<str>>, problem: Arc<CredentialProblem>) -> Self {
        CredentialError { user, problem }
    }

    /// Returns the name of the user in the kubeconfig, if the configuration is from one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the reason.
    pub fn problem(&self) -> &CredentialProblem {
        &self.problem
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "user {user:?}: ")?;
        }
        fmt::Display::fmt(&self.problem, f)
    }
}

impl std::error::Error for CredentialError {
    /// The message includes that of the problem, so this is what is behind it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.problem {
            CredentialProblem::TokenSource(error) => error.source(),
            CredentialProblem::Oidc { problem, .. } => problem.cause(),
            _ => None,
        }
    }
}
