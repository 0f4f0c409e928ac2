//! [`OidcProblem`]: why an OIDC provider has no id token.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use crate::transport::{BoxError, TransportError};

/// Why an OIDC provider has no id token. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcProblem {
    /// The id token is no JWT, so its expiry is unknown.
    #[error("the id token {problem}")]
    IdToken {
        /// What is wrong with the token.
        problem: &'static str,
    },
    /// The id token cannot be used any more, and there is no refresh token.
    #[error("the id token expires, has expired or was rejected, and there is no refresh token; log in again")]
    NoRefreshToken,
    /// New tokens could not be stored anywhere.
    #[error(
        "tokens are not refreshed because there is nowhere to store them: the configuration is not from a kubeconfig file and has no OidcTokenStore"
    )]
    NoStore,
    /// A request to the issuer failed.
    #[error("no response from {url}: {source}")]
    Request {
        /// The URL, without its query.
        url: String,
        /// Why there is no response.
        source: TransportError,
    },
    /// The issuer did not respond in time.
    #[error("the issuer returned no tokens within {limit:?}")]
    Timeout {
        /// The timeout.
        limit: Duration,
    },
    /// The issuer returned an error, or a redirect.
    #[error("{url} returned {status}{}{body}", if body.is_empty() { "" } else { ": " })]
    Status {
        /// The URL, without its query.
        url: String,
        /// The status.
        status: StatusCode,
        /// The first 80 bytes of the response, without secrets.
        body: String,
    },
    /// The issuer returned an invalid response.
    #[error("{url} returned an invalid response: {problem}")]
    Response {
        /// The URL, without its query.
        url: String,
        /// What is wrong with the response.
        problem: String,
    },
    /// The new id token had expired when it was received.
    #[error("the new id token could be used until {at}, which has passed; compare the clock of this machine")]
    Expired {
        /// Ten seconds before its expiry.
        at: Timestamp,
    },
    /// Another program kept the kubeconfig locked.
    #[error("the kubeconfig was locked by another program for {limit:?}")]
    Locked {
        /// The timeout.
        limit: Duration,
    },
    /// The new tokens could not be stored.
    #[error("the new tokens could not be stored: {0}")]
    Store(BoxError),
    /// Storing the new tokens took too long.
    #[error("the new tokens were not stored within {limit:?}")]
    StoreTimeout {
        /// The timeout.
        limit: Duration,
    },
}

impl OidcProblem {
    /// Returns the cause behind the message, which includes the first one.
    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OidcProblem::Request { source, .. } => std::error::Error::source(source),
            OidcProblem::Store(error) => error.source(),
            _ => None,
        }
    }
}
