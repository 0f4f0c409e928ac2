//! Authentication: the credentials of requests, where they are from, and how they are kept out of logs.
//!
//! [`Auth`](crate::config::Auth) selects them. Those that change while a client runs are kept current for all clients
//! that share them: a token file, the exec plugin of a kubeconfig ([`ExecPlugin`]), its OIDC provider
//! ([`OidcProvider`]), or a program's own [`TokenSource`].

mod credentials;
mod error;
mod exec;
mod front_proxy;
mod headers;
mod mask;
mod oidc;
mod redact;
mod refresh;
mod registry;
mod token_file;
mod token_source;
mod wall_clock;

#[cfg(test)]
mod tests;

pub(crate) use credentials::Credentials;
pub use error::{CredentialError, CredentialProblem};
pub(crate) use exec::ExecCredentials;
#[cfg(feature = "internals")]
pub(crate) use exec::internals as exec_internals;
pub use exec::{ExecApiVersion, ExecPlugin, ExecPolicy, ExecProblem, InteractiveMode};
pub use front_proxy::{AuthProxy, AuthProxyLayer};
pub(crate) use mask::is_secret;
pub(crate) use mask::mask_location;
pub use mask::{DebugHeaders, mask_authorization};
pub(crate) use oidc::CERTIFICATE_AUTHORITY as OIDC_CERTIFICATE_AUTHORITY;
pub(crate) use oidc::refresher_of as oidc_refresher;
pub use oidc::{OidcProblem, OidcProvider, OidcTokenStore, OidcTokens};
pub use token_source::{SharedTokenSource, Token, TokenSource};
