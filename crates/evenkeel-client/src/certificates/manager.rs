//! [`CertificateManager`]: the handle of a certificate that renews itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::driver::{Driver, ManagerClock, with_store};
use super::error::CertificateError;
use super::machine::RotationState;
use super::metrics::ManagerMetrics;
use super::request::RequestSettings;
use super::store::{CertificateStore, MemoryStore};
use super::template::{CertificateFacts, CertificateTemplate};
use crate::client::Client;
use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::tls::{ClientIdentity, CryptoProvider, IdentitySlot, RotatingIdentity, provider_of};

/// The signer of client certificates for the API server.
pub const KUBE_APISERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// The default of [`CertificateManagerBuilder::timeout`]. client-go's.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The state of a [`CertificateManager`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CertificateStatus {
    /// The time since which the current certificate is valid; `None` without one.
    pub not_before: Option<Timestamp>,
    /// The time at which the current certificate expires; `None` without one.
    pub expires: Option<Timestamp>,
    /// The error of the last attempt; `None` if it succeeded.
    pub last_error: Option<Arc<CertificateError>>,
    /// Whether the last request shows that the server works. False until the first certificate of this process.
    pub is_server_healthy: bool,
    /// How many attempts failed.
    pub(super) failures: u64,
}

/// A client certificate that renews itself through the CertificateSigningRequest API. See the [module](super).
///
/// # Guarantees
/// - The certificate is renewed after 70 to 90 percent of its lifetime, at a random moment. It is requested at once
///   if there is none, if it has expired, or if it does not satisfy the template.
/// - The key of a request is stored before the request is sent. After a restart the manager continues with the same
///   request, if the store keeps keys.
/// - A renewed certificate is used by new connections. Connections with the old one get no new requests; requests in
///   flight finish.
/// - Requests are made with the current certificate; with the bootstrap credentials only if there is none, if it has
///   expired, or if the server rejected it.
/// - After a failure the next attempt starts after a pause, which doubles from two seconds to 32 seconds. It continues with the
///   same request. After a request that was denied or failed, the pause doubles from one minute to half an hour, and the
///   next request has a new key.
/// - Private keys are shown nowhere.
/// - Dropping the manager stops renewals. Clients keep the last certificate.
///
/// # Not guaranteed
/// - That the signer issues what was requested. A certificate with other names or another lifetime is used, with a
///   warning, and not requested again.
pub struct CertificateManager {
    client: Client,
    identity: RotatingIdentity,
    status: Arc<watch::Sender<CertificateStatus>>,
    templates: watch::Sender<CertificateTemplate>,
    clock: ManagerClock,
    task: JoinHandle<()>,
}

/// Builds a [`CertificateManager`].
#[must_use = "a builder does nothing until `start` is called"]
pub struct CertificateManagerBuilder {
    bootstrap: Config,
    settings: RequestSettings,
    template: CertificateTemplate,
    store: Arc<dyn CertificateStore>,
    timeout: Duration,
}

impl CertificateManager {
    /// Returns a builder.
    ///
    /// The configuration is that of the server, with the credentials for the first request. They are also used after an
    /// expiry, so a bootstrap token that expires should be in a file. The signer is usually [`KUBE_APISERVER_CLIENT`].
    pub fn builder(
        bootstrap: Config,
        signer: impl Into<String>,
        template: CertificateTemplate,
    ) -> CertificateManagerBuilder {
        let usages = ["digital signature", "client auth"].map(str::to_owned).to_vec();
        CertificateManagerBuilder {
            bootstrap,
            settings: RequestSettings { signer: signer.into(), usages, lifetime: None },
            template,
            store: Arc::new(MemoryStore::default()),
            timeout: TIMEOUT,
        }
    }

    /// Waits until there is a valid certificate.
    ///
    /// # Errors
    /// An attempt failed in a way that needs attention: the request was denied, was not signed in time, or is not allowed.
    /// The manager goes on trying, and this may be called again. Servers that are out of reach are waited for.
    pub async fn ready(&self) -> Result<(), Arc<CertificateError>> {
        let mut status = self.status.subscribe();
        let known = status.borrow().failures;
        loop {
            {
                let status = status.borrow_and_update();
                if status.expires.is_some_and(|expires| self.clock.now() < expires) {
                    return Ok(());
                }
                if let Some(error) = status.last_error.as_ref().filter(|error| !error.is_passing())
                    && status.failures > known
                {
                    return Err(Arc::clone(error));
                }
            }
            tokio::select! {
                // The sender is owned by `self`, so this does not fail.
                _ = status.changed() => {}
                () = self.stopped() => return Err(Arc::new(CertificateError::Stopped)),
            }
        }
    }

    /// Ready when the task has ended, with its runtime.
    async fn stopped(&self) {
        self.templates.closed().await;
    }

    /// Returns the current state.
    pub fn status(&self) -> CertificateStatus {
        self.status.borrow().clone()
    }

    /// Returns a client with the configuration of the builder and the current certificate. Until there is one, its
    /// requests are anonymous.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the certificate for [`Tls::rotating_identity`](crate::config::Tls::rotating_identity) of other
    /// configurations.
    pub fn identity(&self) -> RotatingIdentity {
        self.identity.clone()
    }

    /// Replaces the template. If the current certificate does not satisfy it, another one is requested at once, and a
    /// request for the old template is waited for no longer.
    pub fn set_template(&self, template: CertificateTemplate) {
        self.templates.send_if_modified(|current| {
            let is_changed = *current != template;
            *current = template;
            is_changed
        });
    }
}

impl CertificateManagerBuilder {
    /// Sets the store. By default certificates do not survive the manager.
    pub fn store(mut self, store: impl CertificateStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets the usages. By default they are `digital signature` and `client auth`.
    pub fn usages<U: Into<String>>(mut self, usages: impl IntoIterator<Item = U>) -> Self {
        self.settings.usages = usages.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the requested lifetime, of at least ten minutes. The signer may issue another one, and decides by default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.lifetime = Some(lifetime);
        self
    }

    /// Sets the longest wait for a certificate in one attempt; 15 minutes by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reads the store, and starts the manager on the current runtime. Sends nothing before it returns.
    ///
    /// # Errors
    /// The configuration is invalid, or the store fails. A certificate in the store that cannot be read is an error; an expired
    /// one is not.
    pub async fn start(self) -> Result<CertificateManager, CertificateError> {
        let provider = provider_of(&self.bootstrap.tls)?;
        let slot = IdentitySlot::new();
        let identity = RotatingIdentity::new(Arc::clone(&slot));
        let mut config = self.bootstrap.anonymous();
        config.tls.rotating_identity = Some(identity.clone());
        let bootstrap = self.bootstrap.clone();
        // Reads certificates and tokens from files.
        let made = tokio::task::spawn_blocking(move || Ok::<_, Error>((Client::new(bootstrap)?, Client::new(config)?)));
        let (bootstrap, own) = match made.await {
            Ok(made) => made.map_err(config_error)?,
            Err(_) => return Err(CertificateError::Stopped),
        };
        self.start_with(bootstrap, own, provider, slot, identity, ManagerClock::Real).await
    }

    /// Starts with these clients and this clock.
    pub(super) async fn start_with(
        self,
        bootstrap: Client,
        own: Client,
        provider: Arc<CryptoProvider>,
        slot: Arc<IdentitySlot>,
        identity: RotatingIdentity,
        clock: ManagerClock,
    ) -> Result<CertificateManager, CertificateError> {
        let CertificateManagerBuilder { settings, template, store, timeout, .. } = self;
        if template.common_name.is_empty() || settings.signer.is_empty() {
            return Err(ConfigError::invalid("a certificate needs a common name and a signer").into());
        }
        let stored = with_store(&store, "read the certificate", |store| store.current()).await?;
        let mut status = CertificateStatus::default();
        let mut facts = None;
        if let Some(pair) = stored {
            let unusable = |problem: String| CertificateError::Stored { problem };
            let found = ClientIdentity::parse(&pair.certificate, &pair.key, &provider)
                .map_err(|error| unusable(error.to_string()))?;
            let names = CertificateFacts::parse(&pair.certificate);
            let names = names.ok_or_else(|| unusable("its names cannot be read".to_owned()))?;
            (status.not_before, status.expires) = (Some(names.not_before), Some(names.not_after));
            slot.set(Some(found));
            facts = Some(names);
        }
        let status = Arc::new(watch::Sender::new(status));
        let (templates, received) = watch::channel(template.clone());
        let driver = Driver {
            metrics: ManagerMetrics::new(&settings.signer),
            settings,
            limit: timeout,
            store,
            bootstrap,
            own: own.clone(),
            provider,
            slot,
            status: Arc::clone(&status),
            templates: received,
            state: RotationState::new(template, facts, fastrand::f64()),
            clock,
            is_rejected: false,
            pending: None,
        };
        let task = tokio::spawn(driver.run());
        Ok(CertificateManager { client: own, identity, status, templates, clock, task })
    }
}

fn config_error(error: Error) -> CertificateError {
    match error {
        Error::Config(error) => CertificateError::Config(error),
        other => CertificateError::Config(ConfigError::invalid(other.to_string())),
    }
}

impl Drop for CertificateManager {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for CertificateManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateManager").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CertificateManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateManagerBuilder")
            .field("bootstrap", &self.bootstrap)
            .field("settings", &self.settings)
            .field("template", &self.template)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
