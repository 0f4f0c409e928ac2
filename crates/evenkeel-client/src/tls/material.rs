//! [`Material`]: the current TLS configuration.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::digest::Digest;
use super::roots::RootsError;
use super::schedule::{Due, Occasion, Schedule};
use super::slot::{IdentitySlot, NoIdentity};
use super::verify::ServerVerifier;
use super::{identity, provider_of, roots};
use crate::config::{ConfigError, HttpVersions, Identity, Pem, PrivateKey, Tls};

/// How long a handshake waits for the files.
const PATIENCE: Duration = Duration::from_secs(1);

/// The current TLS configuration and the schedule of re-reading its files.
///
/// Files are read at construction, and again on a blocking thread when they are due at a request (which never waits
/// for it) or at a handshake (which waits, so that it uses what is on disk). There is no background task: without
/// requests nothing is read. See [`Schedule`] for the intervals.
///
/// When the content of a file has changed and is valid, a new configuration becomes current and the
/// [epoch](Self::epoch) increases by one. Existing connections are not touched: the pool compares epochs, sends no
/// more requests on older ones, and lets requests in flight finish. Invalid content is logged and the current
/// configuration stays: a half-written file never breaks a working client.
///
/// The certificate of an exec plugin is taken from its [slot](IdentitySlot) in the same way.
pub(crate) struct Material {
    provider: Arc<CryptoProvider>,
    /// The files of the identity; `None` unless both halves are files.
    identity_files: Option<Identity>,
    ca_file: Option<PathBuf>,
    slot: Option<Arc<IdentitySlot>>,
    /// The epoch of the slot that the configuration has.
    slot_epoch: AtomicU64,
    state: Mutex<MaterialState>,
    schedule: Mutex<Schedule>,
    epoch: AtomicU64,
    /// When a request has to consult the schedule, in milliseconds since `made`; before that the lock is not taken.
    ask_at: AtomicU64,
    made: Instant,
}

struct MaterialState {
    config: Arc<ClientConfig>,
    ca: Digest,
    identity: Digest,
}

impl Material {
    /// Reads everything for the first time. Blocks while files are read.
    pub(crate) fn new(tls: &Tls, http: HttpVersions, now: Instant) -> Result<Self, ConfigError> {
        let provider = provider_of(tls)?;
        let (judge, ca_digest) = match (&tls.ca, tls.insecure_skip_verify) {
            (Some(_), true) => {
                let problem = "specifying a root certificates file with the insecure flag is not allowed";
                return Err(ConfigError::Invalid { problem: problem.into() });
            }
            (None, true) => (ServerVerifier::lenient(&provider), Digest::default()),
            (ca, false) => {
                let (roots, digest) = roots::first(ca.as_ref())?;
                (ServerVerifier::strict(roots, &provider), digest)
            }
        };
        let (identity, identity_digest) = match &tls.identity {
            None => (None, Digest::default()),
            Some(identity) => {
                let shown = identity::load(identity, &provider)?;
                (Some(shown.key), shown.digest)
            }
        };
        let config = configure(Arc::clone(&provider), Arc::new(judge), identity, http)?;
        let identity_files = tls
            .identity
            .clone()
            .filter(|identity| matches!(identity, Identity { certificate: Pem::File(_), key: PrivateKey::File(_) }));
        let ca_file = match &tls.ca {
            Some(Pem::File(path)) => Some(path.clone()),
            _ => None,
        };
        let schedule = Schedule::new(identity_files.is_some(), ca_file.is_some(), now);
        let material = Material {
            provider,
            identity_files,
            ca_file,
            slot: None,
            slot_epoch: AtomicU64::new(0),
            ask_at: AtomicU64::new(0),
            made: now,
            epoch: AtomicU64::new(0),
            state: Mutex::new(MaterialState { config, ca: ca_digest, identity: identity_digest }),
            schedule: Mutex::new(schedule),
        };
        material.note_next(&lock(&material.schedule));
        Ok(material)
    }

    /// Takes the client certificate from this slot.
    pub(super) fn following(mut self, slot: Option<&Arc<IdentitySlot>>) -> Self {
        self.slot = slot.cloned();
        self
    }

    /// Returns how often the configuration has changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the configuration for a connection opened now.
    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        Arc::clone(&lock(&self.state).config)
    }

    /// Called before a request. If files are due, starts to read them on another thread without waiting: the result
    /// serves later requests. Returns the epoch. While nothing is due it costs two loads.
    pub(crate) fn touch(self: &Arc<Self>, now: Instant) -> u64 {
        self.follow_slot();
        let epoch = self.epoch();
        if self.since_made(now) >= self.ask_at.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
            && let Some(look) = self.claim(Occasion::Request, now)
        {
            runtime.spawn_blocking(move || look.run());
        }
        epoch
    }

    /// Called before a handshake. Returns the configuration, after re-reading the files unless they were read just
    /// now.
    pub(crate) async fn for_handshake(self: &Arc<Self>, now: Instant) -> Arc<ClientConfig> {
        if let Some(look) = self.claim(Occasion::Handshake, now) {
            // If the file system hangs or the runtime shuts down, the current configuration is used.
            let looked = timeout(PATIENCE, tokio::task::spawn_blocking(move || look.run())).await;
            if !matches!(looked, Ok(Ok(()))) {
                tracing::warn!("reading the TLS files timed out; keeping the loaded ones");
            }
        }
        self.follow_slot();
        self.current()
    }

    pub(super) fn claim(self: &Arc<Self>, occasion: Occasion, now: Instant) -> Option<Look> {
        let mut schedule = lock(&self.schedule);
        let due = schedule.claim(occasion, now);
        self.note_next(&schedule);
        due.any().then(|| Look { material: Arc::clone(self), due })
    }

    fn note_next(&self, schedule: &Schedule) {
        self.ask_at
            .store(schedule.next_for_request().map_or(u64::MAX, |next| self.since_made(next)), Ordering::Relaxed);
    }

    fn since_made(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// Uses the certificate that is in the slot. Costs two loads unless it has changed.
    fn follow_slot(&self) {
        let Some(slot) = &self.slot else { return };
        if slot.epoch() == self.slot_epoch.load(Ordering::Acquire) {
            return;
        }
        let mut state = lock(&self.state);
        let (epoch, identity) = slot.current();
        // Another request may have been faster.
        if self.slot_epoch.swap(epoch, Ordering::AcqRel) == epoch {
            return;
        }
        self.renew_locked(&mut state, |state, config| match identity {
            Some((key, digest)) => {
                state.identity = digest;
                config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
            }
            None => {
                state.identity = Digest::default();
                config.client_auth_cert_resolver = Arc::new(NoIdentity);
            }
        });
    }

    fn look_at_identity(&self) {
        let Some(files) = &self.identity_files else { return };
        let known = lock(&self.state).identity;
        match identity::load(files, &self.provider) {
            Ok(shown) if shown.digest == known => {}
            Ok(shown) => {
                self.renew(|state, config| {
                    state.identity = shown.digest;
                    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown.key));
                });
                tracing::info!("client certificate renewed; new connections use it");
            }
            // While the two files are replaced one after the other, they do not match; the next read resolves it.
            Err(error) => tracing::warn!(
                error = error_chain(&error),
                "the client certificate on disk cannot be used; what was read before stays"
            ),
        }
    }

    fn look_at_ca(&self) {
        let Some(path) = &self.ca_file else { return };
        let known = lock(&self.state).ca;
        let (result, reason) = match roots::changed(path, &known) {
            Ok(None) => ("success", "unchanged"),
            Ok(Some((roots, digest))) => {
                let verifier = ServerVerifier::strict(roots, &self.provider);
                self.renew(|state, config| {
                    state.ca = digest;
                    config.dangerous().set_certificate_verifier(Arc::new(verifier));
                });
                tracing::info!(path = %path.display(), "certificate authority renewed");
                ("success", "updated")
            }
            Err(error) => {
                tracing::warn!(
                    path = %path.display(), error = error_chain(&error),
                    "the certificate authority on disk cannot be used; what was read before stays"
                );
                let reason = match error {
                    RootsError::Read(_) => "read_error",
                    RootsError::Empty => "empty",
                    RootsError::NoCertificate => "ca_parse_error",
                };
                ("failure", reason)
            }
        };
        metrics::counter!("rest_client_transport_ca_reload_total", "result" => result, "reason" => reason).increment(1);
    }

    /// Makes a changed copy of the configuration current. It starts without sessions to resume: nothing of an old
    /// identity or an old trust is carried over.
    fn renew(&self, change: impl FnOnce(&mut MaterialState, &mut ClientConfig)) {
        self.renew_locked(&mut lock(&self.state), change);
    }

    fn renew_locked(&self, state: &mut MaterialState, change: impl FnOnce(&mut MaterialState, &mut ClientConfig)) {
        let mut config = ClientConfig::clone(&state.config);
        config.resumption = Resumption::default();
        change(state, &mut config);
        state.config = Arc::new(config);
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// A claimed read of files. Until it is done or dropped, no other is started.
pub(super) struct Look {
    material: Arc<Material>,
    due: Due,
}

impl Look {
    /// Reads the files that are due, and makes changed and valid ones current. Blocks.
    pub(super) fn run(self) {
        if self.due.identity {
            self.material.look_at_identity();
        }
        if self.due.ca {
            self.material.look_at_ca();
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        lock(&self.material.schedule).done();
    }
}

/// Returns a configuration with this verifier, this identity and these HTTP versions.
pub(super) fn configure(
    provider: Arc<CryptoProvider>,
    judge: Arc<ServerVerifier>,
    identity: Option<Arc<CertifiedKey>>,
    http: HttpVersions,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let is_fips = provider.fips();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| ConfigError::Invalid { problem: format!("TLS cannot be set up: {error}") })?
        .dangerous()
        .with_custom_certificate_verifier(judge);
    let mut config = match identity {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
        None => builder.with_no_client_auth(),
    };
    // Without it, the configuration of a FIPS provider does not count as FIPS.
    config.require_ems |= is_fips;
    let (h2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
    config.alpn_protocols = match http {
        HttpVersions::Any => vec![h2, http1],
        HttpVersions::Http1Only => vec![http1],
        HttpVersions::Http2Only => vec![h2],
    };
    Ok(Arc::new(config))
}

/// Formats an error and its sources on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// Nothing that can panic runs while these are held; if it did, the data would still be consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
