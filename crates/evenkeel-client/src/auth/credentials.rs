//! [`Credentials`]: the headers that every request carries.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, Entry, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::error::CredentialError;
use super::headers::{UserHeaders, secret_value, value};
use super::refresh::Refresher;
use super::token_file::TokenFile;
use crate::config::{Auth, ConfigError, Impersonate};
use crate::secret::Secret;

const IMPERSONATE: UserHeaders = UserHeaders {
    user: IMPERSONATE_USER,
    uid: HeaderName::from_static("impersonate-uid"),
    group: HeaderName::from_static("impersonate-group"),
    extra_prefix: "impersonate-extra-",
    called: "impersonated",
};
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The headers that every request carries: impersonation, user agent and authorization.
///
/// All values are checked and built at construction. Per request they are only cloned, which copies nothing; a token
/// file is re-read, and an exec plugin, an OIDC issuer or a token source called, when it is due.
///
/// Existing headers of a request are never overwritten: its own `Authorization` and `User-Agent` stay, and if it has
/// an `Impersonate-User`, no impersonation header is added.
pub(crate) struct Credentials {
    impersonate: Vec<(HeaderName, HeaderValue)>,
    user_agent: HeaderValue,
    authorization: Authorization,
    /// The name of the user, for errors.
    user: Option<Arc<str>>,
}

enum Authorization {
    None,
    Fixed(HeaderValue),
    File(TokenFile),
    Refreshed(Arc<Refresher>),
}

impl Credentials {
    /// Checks everything and reads the token file for the first time. Blocks while it does. The credentials of an exec
    /// plugin and of an OIDC provider are added by [`refreshed_by`](Self::refreshed_by).
    pub(crate) fn new(
        auth: &Auth,
        impersonate: Option<&Impersonate>,
        user_agent: &str,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let impersonate = match impersonate {
            Some(user) if *user != Impersonate::default() => IMPERSONATE.describe(user)?,
            _ => Vec::new(),
        };
        let authorization = match auth {
            Auth::None | Auth::Exec(_) | Auth::Oidc(_) => Authorization::None,
            Auth::Token(token) => Authorization::Fixed(bearer(token)?),
            Auth::TokenFile { path, fallback } => {
                let fallback = fallback.as_ref().map(bearer).transpose()?;
                Authorization::File(TokenFile::open(path.clone(), fallback, now)?)
            }
            Auth::Source(source) => Authorization::Refreshed(Arc::clone(source.refresher())),
            Auth::Basic { username, password } => Authorization::Fixed(basic(username, password)?),
        };
        let user_agent = value("the user agent", user_agent.as_bytes())?;
        Ok(Credentials { impersonate, user_agent, authorization, user: None })
    }

    /// Uses the credentials of an exec plugin or an OIDC provider.
    pub(crate) fn refreshed_by(mut self, refresher: &Arc<Refresher>) -> Self {
        self.authorization = Authorization::Refreshed(Arc::clone(refresher));
        self
    }

    /// Names the user in errors.
    pub(crate) fn of_user(mut self, user: Option<&str>) -> Self {
        self.user = user.map(Arc::from);
        self
    }

    /// Adds the missing headers to a request. Waits only if a token file has to be read, or if there is no valid
    /// credential of an exec plugin, an OIDC provider or a token source.
    ///
    /// Returns the generation of the credential, for [`invalidate`](Self::invalidate).
    pub(crate) async fn apply(&self, headers: &mut HeaderMap) -> Result<u64, CredentialError> {
        if !self.impersonate.is_empty() && !headers.contains_key(IMPERSONATE_USER) {
            for (name, value) in &self.impersonate {
                headers.append(name.clone(), value.clone());
            }
        }
        if let Entry::Vacant(vacant) = headers.entry(USER_AGENT) {
            vacant.insert(self.user_agent.clone());
        }
        if headers.contains_key(AUTHORIZATION) {
            return Ok(0);
        }
        let (authorization, generation) = match &self.authorization {
            Authorization::None => return Ok(0),
            Authorization::Fixed(value) => (value.clone(), 0),
            Authorization::File(file) => (file.authorization().await, 0),
            Authorization::Refreshed(refresher) => {
                let credential = refresher.credential().await;
                let credential = credential.map_err(|problem| CredentialError::new(self.user.clone(), problem))?;
                match credential.authorization {
                    Some(value) => (value, credential.generation),
                    None => return Ok(credential.generation),
                }
            }
        };
        headers.insert(AUTHORIZATION, authorization);
        Ok(generation)
    }

    /// Reports a 401 for a request sent at this time with the credential of this generation, which
    /// [`apply`](Self::apply) returned. Returns whether a retry makes sense: the next `apply` re-reads a token file, and
    /// calls an exec plugin, an OIDC issuer or a token source again, unless that has happened since. Other credentials do not change.
    pub(crate) fn invalidate(&self, sent: Instant, generation: u64) -> bool {
        match &self.authorization {
            Authorization::None | Authorization::Fixed(_) => false,
            Authorization::File(file) => {
                file.invalidate(sent);
                true
            }
            Authorization::Refreshed(refresher) => refresher.reject(generation),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let authorization = match &self.authorization {
            Authorization::None => "none",
            Authorization::Fixed(_) => "fixed",
            Authorization::File(_) => "from a file",
            Authorization::Refreshed(_) => "refreshed",
        };
        f.debug_struct("Credentials")
            .field("impersonate", &self.impersonate)
            .field("user_agent", &self.user_agent)
            .field("authorization", &authorization)
            .finish()
    }
}

/// Returns the header of a token.
pub(super) fn bearer(token: &Secret) -> Result<HeaderValue, ConfigError> {
    if token.is_empty() {
        return Err(ConfigError::Invalid { problem: "the bearer token is empty".into() });
    }
    let text = Zeroizing::new(format!("Bearer {}", token.expose()));
    secret_value("the bearer token", text.as_bytes())
}

fn basic(username: &str, password: &Secret) -> Result<HeaderValue, ConfigError> {
    let invalid = |problem: &str| Err(ConfigError::Invalid { problem: problem.into() });
    if username.is_empty() {
        return invalid("basic authentication needs a user name");
    }
    if username.contains(':') {
        return invalid("a user name for basic authentication cannot hold a colon: what follows would be the password");
    }
    let control = |text: &str| text.chars().any(char::is_control);
    if control(username) || control(password.expose()) {
        return invalid("the user name or password for basic authentication holds a control character");
    }
    let pair = Zeroizing::new(format!("{username}:{}", password.expose()));
    let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    secret_value("the user name or password", text.as_bytes())
}
