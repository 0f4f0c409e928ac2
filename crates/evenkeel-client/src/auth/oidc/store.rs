//! [`TokenStore`]: where new tokens are kept.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::OidcProvider;
use super::error::OidcProblem;
use super::settings::{ID_TOKEN, NAME, REFRESH_TOKEN};
use crate::config::kubeconfig::{AuthProvider, Kubeconfig, KubeconfigLock};
use crate::config::{ConfigError, KubeconfigFiles, ServerUrl};
use crate::secret::Secret;
use crate::transport::BoxError;

/// How long storing or loading may take. A kubeconfig may be locked by another program.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a held lock is tried.
const LOCK_POLL: Duration = Duration::from_millis(50);
/// How often an edit is tried that another program interferes with.
const ATTEMPTS: usize = 3;

/// The tokens of an OIDC provider after a refresh. `Debug` does not show them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OidcTokens {
    /// The new id token. If the issuer returned none that can be used, but a new refresh token: the previous id token,
    /// which is empty if there was none.
    pub id_token: Secret,
    /// The refresh token of the next refresh: a new one if the issuer replaced it, else the previous one.
    pub refresh_token: Secret,
}

/// Keeps the tokens of an [`OidcProvider`] for programs whose configuration is not from a kubeconfig file. See
/// [`OidcProvider::with_store`].
pub trait OidcTokenStore: Send + Sync + 'static {
    /// Stores new tokens. They are used only after this has succeeded. At most one call is in flight; one that takes
    /// longer than 30 seconds is dropped, and is an error. The text of an error appears in logs and in the errors of
    /// requests.
    fn store(&self, tokens: &OidcTokens) -> impl Future<Output = Result<(), BoxError>> + Send;
}

type Storing<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// The type-erased form of an [`OidcTokenStore`].
pub(super) trait ErasedStore: Send + Sync {
    fn store<'a>(&'a self, tokens: &'a OidcTokens) -> Storing<'a>;
}

struct Erased<S>(S);

impl<S: OidcTokenStore> ErasedStore for Erased<S> {
    fn store<'a>(&'a self, tokens: &'a OidcTokens) -> Storing<'a> {
        Box::pin(self.0.store(tokens))
    }
}

/// Where new tokens are kept.
#[derive(Clone, Default)]
pub(super) enum TokenStore {
    #[default]
    None,
    /// The entry of a user in a kubeconfig file.
    Kubeconfig { file: PathBuf, user: String },
    /// Code of the program.
    Program(Arc<dyn ErasedStore>),
}

/// The lock of the kubeconfig during a refresh, if there is one. Released when the last clone is dropped.
#[derive(Clone)]
pub(super) struct RefreshLock(Option<Arc<KubeconfigLock>>);

/// The tokens that are in a kubeconfig.
pub(super) struct LoadedTokens {
    pub(super) id_token: Option<Secret>,
    pub(super) refresh_token: Option<Secret>,
}

impl TokenStore {
    pub(super) fn of_program(store: impl OidcTokenStore) -> Self {
        TokenStore::Program(Arc::new(Erased(store)))
    }

    /// Returns the tokens that are stored now; `None` if this is unknown. Another program may have refreshed them.
    pub(super) async fn load(&self, issuer: &ServerUrl, client_id: &str) -> Option<LoadedTokens> {
        let TokenStore::Kubeconfig { file, user } = self else { return None };
        let (path, name) = (file.clone(), user.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut config = KubeconfigFiles::explicit(path).load().into_config()?;
            Ok::<_, ConfigError>(provider_of(&mut config, &name).map(|provider| provider.config.clone()))
        });
        let settings = match timeout(TIMEOUT, read).await {
            Ok(Ok(Ok(settings))) => settings?,
            Ok(Ok(Err(error))) => {
                tracing::warn!(file = %file.display(), user, %error, "cannot re-read the tokens of the kubeconfig");
                return None;
            }
            Ok(Err(_)) | Err(_) => return None,
        };
        let stored = OidcProvider::from_settings(&settings).ok()?;
        let is_same = stored.issuer == *issuer && stored.client_id == client_id;
        is_same.then_some(LoadedTokens { id_token: stored.id_token, refresh_token: stored.refresh_token })
    }

    /// Locks the kubeconfig for a refresh, so that two programs do not refresh the same tokens: the second one would
    /// send a refresh token that the issuer accepts no more.
    ///
    /// Polls, because a thread that waits for an operating-system lock cannot be cancelled.
    pub(super) async fn lock(&self) -> Result<RefreshLock, OidcProblem> {
        let TokenStore::Kubeconfig { file, .. } = self else { return Ok(RefreshLock(None)) };
        let locking = async {
            loop {
                let files = KubeconfigFiles::explicit(file.clone());
                match tokio::task::spawn_blocking(move || files.try_lock()).await {
                    Ok(Ok(Some(lock))) => return Ok(RefreshLock(Some(Arc::new(lock)))),
                    Ok(Ok(None)) => sleep(LOCK_POLL).await,
                    Ok(Err(error)) => return Err(OidcProblem::Store(error.into())),
                    Err(error) => return Err(OidcProblem::Store(error.into())),
                }
            }
        };
        timeout(TIMEOUT, locking).await.unwrap_or(Err(OidcProblem::Locked { limit: TIMEOUT }))
    }

    /// Stores new tokens.
    pub(super) async fn store(&self, tokens: &OidcTokens, lock: &RefreshLock) -> Result<(), OidcProblem> {
        let stored = match self {
            TokenStore::None => return Err(OidcProblem::NoStore),
            TokenStore::Program(program) => timeout(TIMEOUT, program.store(tokens)).await,
            TokenStore::Kubeconfig { file, user } => {
                let (file, user, tokens, lock) = (file.clone(), user.clone(), tokens.clone(), lock.clone());
                let write = tokio::task::spawn_blocking(move || {
                    write(&file, &user, &tokens, lock.0.as_deref()).map_err(BoxError::from)
                });
                timeout(TIMEOUT, write).await.map(|ended| ended.unwrap_or_else(|error| Err(error.into())))
            }
        };
        match stored {
            Ok(result) => result.map_err(OidcProblem::Store),
            Err(_) => Err(OidcProblem::StoreTimeout { limit: TIMEOUT }),
        }
    }
}

/// Writes tokens to the entry of a user, under the lock of the file. Blocks. No other field is changed.
fn write(file: &Path, user: &str, tokens: &OidcTokens, lock: Option<&KubeconfigLock>) -> Result<(), ConfigError> {
    let files = KubeconfigFiles::explicit(file);
    let mut attempt = 1;
    loop {
        let change = |config: &mut Kubeconfig| match provider_of(config, user) {
            Some(provider) => {
                provider.config.insert(ID_TOKEN.to_owned(), tokens.id_token.clone());
                provider.config.insert(REFRESH_TOKEN.to_owned(), tokens.refresh_token.clone());
                true
            }
            None => false,
        };
        let written = match lock {
            Some(lock) => files.edit_locked(lock, change),
            None => files.edit(change),
        };
        match written {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let file = file.display();
                let problem = format!("the user {user:?} with an oidc auth-provider is no longer in {file}");
                return Err(ConfigError::invalid(problem));
            }
            Err(ConfigError::Changed { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns the OIDC provider of a user.
fn provider_of<'a>(config: &'a mut Kubeconfig, user: &str) -> Option<&'a mut AuthProvider> {
    let provider = config.users.get_mut(user)?.auth_provider.as_mut()?;
    (provider.name.as_deref() == Some(NAME)).then_some(provider)
}

impl PartialEq for TokenStore {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (TokenStore::None, TokenStore::None) => true,
            (TokenStore::Kubeconfig { file, user }, TokenStore::Kubeconfig { file: other_file, user: other_user }) => {
                (file, user) == (other_file, other_user)
            }
            (TokenStore::Program(one), TokenStore::Program(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for TokenStore {}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenStore::None => f.write_str("None"),
            TokenStore::Kubeconfig { file, user } => {
                f.debug_struct("Kubeconfig").field("file", file).field("user", user).finish()
            }
            TokenStore::Program(_) => f.write_str("Program"),
        }
    }
}
