//! [`TokenSource`]: tokens from a program's own code, such as the SDK of a cloud.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use super::credentials::bearer;
use super::error::CredentialProblem;
use super::refresh::{CredentialSource, Fetched, Fetching, Refresher};
use super::wall_clock::lifetime;
use crate::secret::Secret;
use crate::transport::BoxError;

/// How long a source may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A source of bearer tokens, for [`Auth::source`](crate::config::Auth::source).
///
/// ```
/// use evenkeel_client::Config;
/// use evenkeel_client::auth::{Token, TokenSource};
/// use evenkeel_client::config::{Auth, ServerUrl};
/// use evenkeel_client::transport::BoxError;
///
/// struct Cloud;
///
/// impl TokenSource for Cloud {
///     async fn token(&self) -> Result<Token, BoxError> {
///         // A call of the cloud's SDK.
///         Ok(Token::new("the-token").expires_at("2030-01-01T00:00:00Z".parse()?))
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// let mut config = Config::new(ServerUrl::parse("https://example.com")?);
/// config.auth = Auth::source(Cloud);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - At most one call is in flight, whatever the number of requests and clients that share the source.
/// - A token is reused until it expires, and replaced ahead of that without delaying requests. A token without an
///   expiry is reused until the server rejects it with a 401; the rejected request is sent once more if its body can be.
/// - After an error the source is not called again before a pause, which doubles from one second to one minute.
///   Requests without a valid token fail with the error at once.
/// - A call that takes longer than a minute is dropped, and is an error.
/// - A call runs in a task of its own: it is not dropped with the request that caused it.
pub trait TokenSource: Send + Sync + 'static {
    /// Returns a token. The text of an error appears in logs and in the errors of requests.
    fn token(&self) -> impl Future<Output = Result<Token, BoxError>> + Send;
}

/// A bearer token and its expiry. `Debug` does not show the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    value: Secret,
    expires: Option<Timestamp>,
}

impl Token {
    /// Returns a token that is used until the server rejects it.
    pub fn new(value: impl Into<Secret>) -> Self {
        Token { value: value.into(), expires: None }
    }

    /// Sets the time until which the token is used. It is refreshed ahead of it.
    #[must_use]
    pub fn expires_at(mut self, expires: Timestamp) -> Self {
        self.expires = Some(expires);
        self
    }
}

/// A [`TokenSource`] with its current token. Clones share it, so all clients of clones of a configuration do.
#[derive(Clone)]
pub struct SharedTokenSource(Arc<Refresher>);

impl SharedTokenSource {
    /// Wraps a source. Does not call it.
    pub fn new(source: impl TokenSource) -> Self {
        SharedTokenSource(Refresher::new(Adapter(source)))
    }

    pub(super) fn refresher(&self) -> &Arc<Refresher> {
        &self.0
    }
}

impl PartialEq for SharedTokenSource {
    /// Returns whether both share one token.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedTokenSource {}

impl fmt::Debug for SharedTokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTokenSource")
    }
}

struct Adapter<S>(S);

impl<S: TokenSource> CredentialSource for Adapter<S> {
    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let token = match timeout(TIMEOUT, self.0.token()).await {
                Ok(token) => token.map_err(CredentialProblem::TokenSource)?,
                Err(_) => return Err(CredentialProblem::TokenSourceTimeout { limit: TIMEOUT }),
            };
            let authorization = bearer(&token.value).map_err(|_| CredentialProblem::InvalidToken)?;
            let lifetime = lifetime(token.expires).map_err(|at| CredentialProblem::Expired { at })?;
            Ok(Fetched { authorization: Some(authorization), lifetime })
        })
    }
}

#[cfg(test)]
mod tests;
