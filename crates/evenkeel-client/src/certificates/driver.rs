//! [`Driver`]: the task of a certificate manager. All I/O and timers are here.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::error::CertificateError;
use super::machine::{AttemptFailure, RotationDecision, RotationState};
use super::manager::CertificateStatus;
use super::metrics::ManagerMetrics;
use super::request::{RequestProgress, RequestSettings, SigningRequest, generate_key, progress};
use super::store::{CertificatePair, CertificateStore};
use super::template::{CertificateFacts, CertificateTemplate};
use crate::client::Client;
use crate::error::Error;
use crate::secret::Secret;
use crate::tls::{ClientIdentity, CryptoProvider, IdentitySlot};
use crate::transport::BoxError;
use crate::wait::wait_while_pending;
use crate::watch::Selection;

/// The longest sleep. The wall clock may jump, and a suspended machine does not count the time.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The wall clock, or one that follows tokio's.
#[derive(Clone, Copy, Debug)]
pub(super) enum ManagerClock {
    Real,
    #[cfg(test)]
    Virtual {
        origin: Timestamp,
        since: tokio::time::Instant,
    },
}

impl ManagerClock {
    #[expect(clippy::disallowed_methods, reason = "expiries are times of day; the real clock enters here")]
    pub(super) fn now(self) -> Timestamp {
        match self {
            ManagerClock::Real => Timestamp::now(),
            #[cfg(test)]
            ManagerClock::Virtual { origin, since } => origin + since.elapsed(),
        }
    }
}

/// Rotates the certificate of one manager, until it is dropped.
pub(super) struct Driver {
    pub(super) settings: RequestSettings,
    /// The longest wait for a certificate.
    pub(super) limit: Duration,
    pub(super) store: Arc<dyn CertificateStore>,
    /// Requests the first certificate, and one after an expiry.
    pub(super) bootstrap: Client,
    /// Requests all others, with the current certificate.
    pub(super) own: Client,
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) slot: Arc<IdentitySlot>,
    pub(super) status: Arc<watch::Sender<CertificateStatus>>,
    pub(super) templates: watch::Receiver<CertificateTemplate>,
    pub(super) state: RotationState,
    pub(super) clock: ManagerClock,
    pub(super) metrics: ManagerMetrics,
    /// The server rejected the current certificate.
    pub(super) is_rejected: bool,
    /// The key of the pending request, for stores that do not keep it.
    pub(super) pending: Option<Secret>,
}

impl Driver {
    pub(super) async fn run(mut self) {
        loop {
            let template = self.templates.borrow_and_update().clone();
            self.state.set_template(template);
            let now = self.clock.now();
            self.metrics.show_ttl(self.state.valid(now).map(|facts| facts.not_after), now);
            match self.state.decide(now) {
                RotationDecision::Sleep(wait) => {
                    tokio::select! {
                        () = sleep(wait.min(LONGEST_SLEEP)) => {}
                        changed = self.templates.changed() => if changed.is_err() { return },
                    }
                }
                RotationDecision::Request => self.rotate().await,
            }
        }
    }

    /// Makes one attempt, and records its outcome.
    async fn rotate(&mut self) {
        let outcome = match self.pending_key().await {
            Ok(key) => {
                let mut templates = self.templates.clone();
                let obtained = tokio::select! {
                    obtained = self.obtain(&key) => obtained,
                    // Another certificate is wanted now, so this one is waited for no longer.
                    _ = templates.changed() => return,
                };
                match obtained {
                    Ok((name, pem)) => self.install(&name, CertificatePair { certificate: pem, key }).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            self.fail(error).await;
        }
    }

    /// Returns the key of the pending request, or a new one, which is stored before it is used.
    async fn pending_key(&mut self) -> Result<Secret, CertificateError> {
        if let Some(key) = &self.pending {
            return Ok(key.clone());
        }
        let stored = self.with_store("read the key of the pending request", |store| {
            // A key that has its certificate is left over from a process that ended before it was removed.
            let current = store.current()?;
            Ok(store.pending_key()?.filter(|key| current.is_none_or(|pair| pair.key != *key)))
        });
        let key = match stored.await? {
            Some(key) => key,
            None => {
                let key = generate_key()?;
                let kept = key.clone();
                self.with_store("write the key of a request", move |store| store.set_pending_key(Some(&kept))).await?;
                key
            }
        };
        self.pending = Some(key.clone());
        Ok(key)
    }

    /// Requests a certificate for this key and waits for it. Returns the name of the request and the certificate.
    async fn obtain(&mut self, key: &Secret) -> Result<(String, String), CertificateError> {
        let request = SigningRequest::new(self.state.template(), &self.settings, key)?;
        let is_own = self.state.valid(self.clock.now()).is_some() && !self.is_rejected;
        let client = if is_own { self.own.clone() } else { self.bootstrap.clone() };
        let (name, signer, limit) = (request.name.clone(), self.settings.signer.clone(), self.limit);
        let waiting = async {
            let uid = match submit(&client, &request).await {
                Ok(uid) => uid,
                Err(error) => {
                    self.note_server_error(&error, is_own);
                    return Err(error);
                }
            };
            wait(&client, &request.name, &uid).await
        };
        let progress = match timeout(limit, waiting).await {
            Ok(progress) => progress?,
            Err(_) => return Err(CertificateError::Timeout { name, signer, limit }),
        };
        match progress {
            RequestProgress::Issued(pem) => Ok((name, pem)),
            RequestProgress::Denied { reason, message } => Err(CertificateError::Denied { name, reason, message }),
            RequestProgress::Failed { reason, message } => {
                Err(CertificateError::Failed { name, signer, reason, message })
            }
            RequestProgress::Deleted | RequestProgress::Pending => Err(CertificateError::Deleted { name }),
        }
    }

    /// Makes an issued certificate the current one.
    async fn install(&mut self, name: &str, pair: CertificatePair) -> Result<(), CertificateError> {
        let unusable = |problem: String| CertificateError::Issued {
            name: name.to_owned(),
            signer: self.settings.signer.clone(),
            problem,
        };
        let identity = ClientIdentity::parse(&pair.certificate, &pair.key, &self.provider)
            .map_err(|error| unusable(error.to_string()))?;
        let facts = CertificateFacts::parse(&pair.certificate)
            .ok_or_else(|| unusable("its names cannot be read".to_owned()))?;
        let now = self.clock.now();
        if facts.not_after <= now {
            return Err(unusable(format!("it expired at {}", facts.not_after)));
        }
        if !self.state.template().is_satisfied_by(&facts) {
            tracing::warn!(request = name, "the issued certificate differs from what was requested; using it");
        }
        let stored = self
            .with_store("write the certificate", move |store| {
                store.update(&pair)?;
                store.set_pending_key(None)
            })
            .await;
        self.pending = None;
        if let Some(replaced) = self.slot.set(Some(identity)) {
            self.metrics.rotated(replaced.not_before(), now);
        }
        self.is_rejected = false;
        tracing::info!(request = name, expires = %facts.not_after, "client certificate renewed; new connections use it");
        let (not_before, expires) = (Some(facts.not_before), Some(facts.not_after));
        self.state.installed(facts, now, fastrand::f64());
        // The certificate is used although a restart would have to request another one.
        let last_error = stored.err().map(Arc::new);
        if let Some(error) = &last_error {
            self.metrics.failed();
            tracing::error!(%error, "the new client certificate is not stored");
        }
        self.status.send_modify(|status| {
            (status.not_before, status.expires, status.is_server_healthy) = (not_before, expires, true);
            status.last_error = last_error;
        });
        Ok(())
    }

    /// Records a failed attempt.
    async fn fail(&mut self, error: CertificateError) {
        self.metrics.failed();
        let failure = error.failure();
        let retry_in = self.state.failed(failure, self.clock.now(), fastrand::f64());
        tracing::warn!(error = %Chain(&error), ?retry_in, "cannot renew the client certificate; retrying");
        let error = Arc::new(error);
        self.status.send_modify(|status| {
            status.failures += 1;
            status.last_error = Some(error);
        });
        if failure == AttemptFailure::Refused {
            // The next request has another key, so that it has another name.
            self.pending = None;
            let forgotten = self.with_store("remove the key of a refused request", |store| store.set_pending_key(None));
            if let Err(error) = forgotten.await {
                tracing::error!(error = %Chain(&error), "the next request has the same key");
            }
        }
    }

    /// Infers the health of the server from an error, as client-go.
    fn note_server_error(&mut self, error: &CertificateError, is_own: bool) {
        let CertificateError::Api { source, .. } = error else { return };
        self.is_rejected = is_own && source.is_unauthorized();
        let is_healthy = source.is_unauthorized()
            || (!source.is_unexpected_server_error() && (source.is_not_found() || source.is_forbidden()));
        self.status.send_modify(|status| status.is_server_healthy = is_healthy);
    }

    async fn with_store<T: Send + 'static>(
        &self,
        what: &'static str,
        call: impl FnOnce(&dyn CertificateStore) -> Result<T, BoxError> + Send + 'static,
    ) -> Result<T, CertificateError> {
        with_store(&self.store, what, call).await
    }
}

/// Calls the store on a thread that may block.
pub(super) async fn with_store<T: Send + 'static>(
    store: &Arc<dyn CertificateStore>,
    what: &'static str,
    call: impl FnOnce(&dyn CertificateStore) -> Result<T, BoxError> + Send + 'static,
) -> Result<T, CertificateError> {
    let store = Arc::clone(store);
    let called = tokio::task::spawn_blocking(move || call(&*store)).await;
    called.unwrap_or_else(|error| Err(error.into())).map_err(|source| CertificateError::Store { what, source })
}

/// Creates the request, unless it exists already. Returns its uid.
async fn submit(client: &Client, request: &SigningRequest) -> Result<String, CertificateError> {
    let requests = client.api::<CertificateSigningRequest>();
    let name = request.name.as_str();
    match requests.create(&request.object).await {
        Ok(created) => {
            tracing::info!(request = name, "certificate signing request created; waiting for the certificate");
            Ok(created.uid().to_owned())
        }
        Err(error) if error.is_already_exists() => {
            let found = requests.get(name).await.map_err(|error| CertificateError::api("read", name, error))?;
            let object = found.typed().map_err(|error| CertificateError::api("read", name, Error::from(error)))?;
            request.check(&object)?;
            tracing::info!(request = name, "the certificate signing request exists already; continuing with it");
            Ok(found.uid().to_owned())
        }
        Err(error) => Err(CertificateError::api("create", name, error)),
    }
}

/// Waits until the request is no longer pending.
async fn wait(client: &Client, name: &str, uid: &str) -> Result<RequestProgress, CertificateError> {
    let requests = client.api::<CertificateSigningRequest>();
    let mut last = RequestProgress::Pending;
    let failed = |error| CertificateError::api("watch", name, error);
    let selection = Selection::named(&requests, name).map_err(failed)?;
    let waited = wait_while_pending(selection, |object| {
        last = match object.map(|object| object.typed()).transpose() {
            Ok(object) => progress(object.as_deref(), uid),
            Err(error) => RequestProgress::Failed { reason: "Undecodable".into(), message: error.to_string() },
        };
        last != RequestProgress::Pending
    });
    waited.await.map_err(failed)?;
    Ok(last)
}

/// Formats an error and its sources on one line.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(source) = next {
            write!(f, ": {source}")?;
            next = source.source();
        }
        Ok(())
    }
}
