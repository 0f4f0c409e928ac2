//! [`OidcSource`]: an OIDC provider as a source of credentials.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use tokio::time::timeout;

use super::OidcProvider;
use super::error::OidcProblem;
use super::id_token::usable_until;
use super::issuer::{Connector, IssuerClient, Refreshed};
use super::store::{OidcTokens, RefreshLock, TokenStore};
use crate::auth::credentials::bearer;
use crate::auth::error::CredentialProblem;
use crate::auth::refresh::{CredentialSource, Fetched, Fetching};
use crate::auth::wall_clock::lifetime;
use crate::config::ConfigError;
use crate::secret::Secret;

/// How long the issuer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Obtains id tokens: from the configuration, from the kubeconfig, or from the issuer.
pub(super) struct OidcSource {
    issuer: IssuerClient,
    client_id: String,
    store: TokenStore,
    state: Mutex<TokenState>,
}

/// The tokens as last known.
#[derive(Default)]
struct TokenState {
    id_token: Option<Secret>,
    refresh_token: Option<Secret>,
    /// The last id token that was used. It is not used again: it is about to expire, or was rejected.
    used: Option<Secret>,
    /// Tokens of the issuer that could not be stored. The issuer may accept the previous refresh token no more.
    unstored: Option<OidcTokens>,
}

impl OidcSource {
    /// Sends nothing. Blocks while the CA of the issuer is read from its file.
    pub(super) fn new(provider: &OidcProvider, connect: Connector) -> Result<Self, ConfigError> {
        let state = TokenState {
            id_token: provider.id_token.clone(),
            refresh_token: provider.refresh_token.clone(),
            ..TokenState::default()
        };
        Ok(OidcSource {
            issuer: IssuerClient::new(provider, connect)?,
            client_id: provider.client_id.clone(),
            store: provider.store.clone(),
            state: Mutex::new(state),
        })
    }

    async fn obtain(&self) -> Result<Fetched, OidcProblem> {
        let (id_token, unstored) = {
            let state = self.lock();
            (state.id_token.clone(), state.unstored.clone())
        };
        if unstored.is_none()
            && let Some(fetched) = self.unused(id_token.as_ref())?
        {
            return Ok(fetched);
        }
        let lock = self.store.lock().await?;
        if let Some(tokens) = unstored {
            self.keep(&tokens, &lock).await?;
        }
        let (mut id_token, mut refresh_token) = {
            let state = self.lock();
            (state.id_token.clone(), state.refresh_token.clone())
        };
        if let Some(fetched) = self.unused(id_token.as_ref())? {
            return Ok(fetched);
        }
        if let Some(stored) = self.store.load(self.issuer.issuer(), &self.client_id).await {
            if let Some(fetched) = self.unused(stored.id_token.as_ref())? {
                return Ok(fetched);
            }
            id_token = stored.id_token.or(id_token);
            refresh_token = stored.refresh_token.or(refresh_token);
        }
        let Some(refresh_token) = refresh_token.filter(|token| !token.is_empty()) else {
            return Err(OidcProblem::NoRefreshToken);
        };
        if self.store == TokenStore::None {
            return Err(OidcProblem::NoStore);
        }
        self.refresh(refresh_token, id_token, &lock).await
    }

    /// Requests new tokens and stores them. `previous` is the id token that they replace.
    async fn refresh(
        &self,
        refresh_token: Secret,
        previous: Option<Secret>,
        lock: &RefreshLock,
    ) -> Result<Fetched, OidcProblem> {
        let Ok(response) = timeout(TIMEOUT, self.issuer.refresh(&refresh_token)).await else {
            return Err(OidcProblem::Timeout { limit: TIMEOUT });
        };
        let Refreshed { id_token, rotated } = response?;
        let checked = id_token.and_then(|token| {
            let until = usable_until(&token)?;
            authorization(&token)?;
            Ok((token, until))
        });
        let (id_token, until) = match checked {
            Ok(checked) => checked,
            Err(problem) => {
                // A malformed id token is not stored, but the issuer may accept the previous refresh token no more.
                if let Some(refresh_token) = rotated {
                    let id_token = previous.unwrap_or_else(|| Secret::new(""));
                    self.keep(&OidcTokens { id_token, refresh_token }, lock).await?;
                }
                return Err(problem);
            }
        };
        let tokens = OidcTokens { id_token, refresh_token: rotated.unwrap_or(refresh_token) };
        self.keep(&tokens, lock).await?;
        tracing::debug!(issuer = %self.issuer.issuer(), "id token refreshed");
        match (self.unused(Some(&tokens.id_token))?, until) {
            (Some(fetched), _) => Ok(fetched),
            (None, Some(at)) => Err(OidcProblem::Expired { at }),
            (None, None) => Err(OidcProblem::IdToken { problem: "of the issuer has no expiry" }),
        }
    }

    /// Stores tokens, and makes them the known ones.
    async fn keep(&self, tokens: &OidcTokens, lock: &RefreshLock) -> Result<(), OidcProblem> {
        self.lock().unstored = Some(tokens.clone());
        self.store.store(tokens, lock).await?;
        let mut state = self.lock();
        state.unstored = None;
        state.id_token = Some(tokens.id_token.clone());
        state.refresh_token = Some(tokens.refresh_token.clone());
        Ok(())
    }

    /// Returns the credential of an id token; `None` if it has expired or was used before. An expiry that is missing has
    /// passed, as in client-go.
    fn unused(&self, id_token: Option<&Secret>) -> Result<Option<Fetched>, OidcProblem> {
        let Some(token) = id_token.filter(|token| !token.is_empty()) else { return Ok(None) };
        let until: Option<Timestamp> = usable_until(token)?;
        if until.is_none() || self.lock().used.as_ref() == Some(token) {
            return Ok(None);
        }
        let Ok(Some(lifetime)) = lifetime(until) else { return Ok(None) };
        if lifetime.is_zero() {
            return Ok(None);
        }
        let authorization = authorization(token)?;
        self.lock().used = Some(token.clone());
        Ok(Some(Fetched { authorization: Some(authorization), lifetime: Some(lifetime) }))
    }

    /// Nothing that can panic runs while this is held.
    fn lock(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the header of an id token.
fn authorization(token: &Secret) -> Result<HeaderValue, OidcProblem> {
    let problem = "holds a line break or another control character";
    bearer(token).map_err(|_| OidcProblem::IdToken { problem })
}

impl CredentialSource for OidcSource {
    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let obtained = self.obtain().await;
            obtained.map_err(|problem| CredentialProblem::Oidc { issuer: self.issuer.issuer().to_string(), problem })
        })
    }
}
