//! The OIDC providers of this process, shared by clients of the same user.

use std::sync::{Arc, LazyLock};

use super::OidcProvider;
use super::issuer::{Connector, connector};
use super::source::OidcSource;
use super::store::TokenStore;
use crate::auth::refresh::Refresher;
use crate::auth::registry::CredentialRegistry;
use crate::config::{Config, ConfigError, Pem, ServerUrl};
use crate::secret::Secret;
use crate::tls::{Digest, digest};

/// The providers in use.
pub(super) type ProviderRegistry = CredentialRegistry<Arc<Refresher>>;

/// Returns the refresher of this provider for the server of this configuration: the one in use, or a new one. Sends
/// nothing. Blocks while the CA of the issuer is read from its file.
pub(crate) fn refresher_of(config: &Config, provider: &OidcProvider) -> Result<Arc<Refresher>, ConfigError> {
    static REGISTRY: LazyLock<ProviderRegistry> = LazyLock::new(ProviderRegistry::default);
    REGISTRY.refresher(&config.server, provider, connector(config, provider))
}

impl ProviderRegistry {
    pub(super) fn refresher(
        &self,
        server: &ServerUrl,
        provider: &OidcProvider,
        connect: Connector,
    ) -> Result<Arc<Refresher>, ConfigError> {
        self.get_or_create(key(server, provider), || Ok(Refresher::new(OidcSource::new(provider, connect)?)))
    }
}

/// Identifies the server, the issuer, the client and the user, without keeping a secret. Tokens change, so the user is
/// identified by where they are stored; by the tokens only if they are stored nowhere.
fn key(server: &ServerUrl, provider: &OidcProvider) -> Digest {
    // Destructured, so that a new field is not forgotten.
    let OidcProvider { issuer, client_id, client_secret, ca, id_token, refresh_token, store } = provider;
    let text = |secret: &Option<Secret>| secret.clone().unwrap_or_else(|| Secret::new(""));
    let ca = match ca {
        None => ("system", Vec::new()),
        Some(Pem::File(path)) => ("file", path.as_os_str().as_encoded_bytes().to_vec()),
        Some(Pem::Data(text)) => ("data", text.as_bytes().to_vec()),
    };
    let tokens = (text(id_token), text(refresh_token));
    let (kind, place, user) = match store {
        TokenStore::None => ("none", tokens.0.expose().as_bytes().to_vec(), tokens.1.expose().to_owned()),
        TokenStore::Kubeconfig { file, user } => {
            ("kubeconfig", file.as_os_str().as_encoded_bytes().to_vec(), user.clone())
        }
        // The entry keeps the store alive, so its address identifies it.
        TokenStore::Program(program) => ("program", format!("{:p}", Arc::as_ptr(program)).into_bytes(), String::new()),
    };
    let (server, issuer, secret) = (server.to_string(), issuer.to_string(), text(client_secret));
    digest([
        server.as_bytes(),
        issuer.as_bytes(),
        client_id.as_bytes(),
        secret.expose().as_bytes(),
        ca.0.as_bytes(),
        ca.1.as_slice(),
        kind.as_bytes(),
        place.as_slice(),
        user.as_bytes(),
    ])
}
