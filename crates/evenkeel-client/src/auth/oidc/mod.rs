//! OpenID Connect: the auth provider `oidc` of kubeconfigs.
//!
//! The flow of a refresh, by file:
//!
//! 1. `registry` returns the provider that clients of one user share; its [`Refresher`](super::refresh::Refresher)
//!    decides when to refresh.
//! 2. `source` uses the id token of the configuration while it is valid (`id_token` reads its expiry), then the one in
//!    the kubeconfig, which another program may have refreshed.
//! 3. `issuer` requests the discovery document and new tokens; `protocol` has the messages.
//! 4. `store` writes the new tokens to where the old ones are from. Only then they are used.

mod error;
mod id_token;
mod issuer;
mod protocol;
mod registry;
mod settings;
mod source;
mod store;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::config::{Pem, ServerUrl};
use crate::secret::Secret;

pub use error::OidcProblem;
pub(crate) use registry::refresher_of;
pub(crate) use settings::CERTIFICATE_AUTHORITY;
use store::TokenStore;
pub use store::{OidcTokenStore, OidcTokens};

/// An OpenID Connect provider: its id token authenticates requests and is refreshed with a refresh token. A kubeconfig's
/// `auth-provider` of the name `oidc` becomes one.
///
/// The login itself is not part of it: the tokens are from a program such as `kubectl oidc-login`.
///
/// # Guarantees
/// - The id token is used until ten seconds before its expiry, and refreshed ahead of it without delaying requests, or
///   when the server rejects it with a 401. A token that is no JWT is an error, not a refresh.
/// - New tokens are stored before they are used: in the kubeconfig file that the user is from, or by an
///   [`OidcTokenStore`]. If that fails, requests fail, and the same tokens are stored again before the issuer is called
///   again. Without either, the id token is used until it expires, and a refresh is an error.
/// - A new refresh token is stored even if the id token beside it is malformed, which is an error.
/// - Tokens that another program stored in the kubeconfig are used before the issuer is called.
/// - At most one refresh is in flight for all clients of the same user. After a failure the next one starts after a
///   pause, which doubles from one second to one minute.
/// - Secrets are sent over TLS only, except to a loopback address. Redirects are errors. A refresh takes at most
///   30 seconds, a response has at most 1 MiB, and an error quotes at most 80 bytes of one, without secrets.
///
/// - Programs that use this library do not refresh the tokens of one kubeconfig at the same time: its lock is held from
///   reading the tokens to storing the new ones. The second program uses the tokens of the first.
/// - A kubeconfig is replaced atomically, with mode 0600. A link stays a link, and unknown fields are kept.
///
/// # Not guaranteed
/// - `kubectl` does not use that lock. If both refresh at the same time, and the issuer accepts each refresh token once,
///   one of them fails; evenkeel finds the tokens of `kubectl` in the kubeconfig when it retries.
/// - Comments in the kubeconfig are lost when tokens are stored, as in client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OidcProvider {
    /// The issuer (`idp-issuer-url`).
    pub issuer: ServerUrl,
    /// The id of the client at the issuer (`client-id`).
    pub client_id: String,
    /// The secret of the client (`client-secret`); `None` for a public client.
    pub client_secret: Option<Secret>,
    /// The certificates to trust for the issuer instead of the system's (`idp-certificate-authority`, or
    /// `idp-certificate-authority-data`).
    pub ca: Option<Pem>,
    /// The id token (`id-token`).
    pub id_token: Option<Secret>,
    /// The refresh token (`refresh-token`).
    pub refresh_token: Option<Secret>,
    store: TokenStore,
}

impl OidcProvider {
    /// Returns a provider without tokens.
    pub fn new(issuer: ServerUrl, client_id: impl Into<String>) -> Self {
        OidcProvider {
            issuer,
            client_id: client_id.into(),
            client_secret: None,
            ca: None,
            id_token: None,
            refresh_token: None,
            store: TokenStore::None,
        }
    }

    /// Stores new tokens with the program's own code, instead of in the kubeconfig.
    #[must_use]
    pub fn with_store(mut self, store: impl OidcTokenStore) -> Self {
        self.store = TokenStore::of_program(store);
        self
    }

    /// Stores new tokens in the entry of this user in this kubeconfig file, under its lock.
    /// [`Config::infer`](crate::Config::infer) and [`Config::from_kubeconfig_file`](crate::Config::from_kubeconfig_file)
    /// do so already.
    #[must_use]
    pub fn stored_in(mut self, file: impl Into<PathBuf>, user: impl Into<String>) -> Self {
        self.store = TokenStore::Kubeconfig { file: file.into(), user: user.into() };
        self
    }

    /// Returns the problems that make the provider unusable.
    pub(crate) fn problems(&self) -> Vec<&'static str> {
        let mut problems = Vec::new();
        if self.client_id.is_empty() {
            problems.push("the OIDC provider has no client id");
        }
        if !is_protected(&self.issuer) {
            problems.push("the issuer of the OIDC provider is not https: secrets would be sent in the clear");
        }
        problems
    }
}

/// Returns whether secrets may be sent to this server.
fn is_protected(server: &ServerUrl) -> bool {
    server.is_tls() || server.is_loopback()
}
