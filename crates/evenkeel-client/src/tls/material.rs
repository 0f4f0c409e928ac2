//! [`Material`]: what connections are protected with at this moment.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::digest::Digest;
use super::roots::RootsError;
use super::schedule::{Due, Occasion, Schedule};
use super::verify::Judge;
use super::{identity, provider, roots};
use crate::config::{ConfigError, HttpVersions, Identity, Pem, PrivateKey, Tls};

/// What connections are protected with at this moment, and when that has to be looked at again.
///
/// Files are read when the material is made, and again, on a thread where that disturbs nobody, when somebody comes by
/// after long enough: a request (which never waits for it) or a handshake (which does, so that it shows what is on disk).
/// Nothing happens while nobody comes by; there is no task in the background. See [`Schedule`] for the times.
///
/// When the content of a file has changed and is good, a new configuration becomes the current one and the
/// [epoch](Self::epoch) goes up by one. Connections that exist are not touched: whoever keeps them compares epochs, gives
/// those of an older one no more requests, and lets what is under way on them finish. What cannot be used is logged, and
/// what was there stays: a half-written file never breaks a client that works.
pub(crate) struct Material {
    http: HttpVersions,
    /// Where to read the identity again; `None` if not both halves are files.
    identity_files: Option<Identity>,
    ca_file: Option<PathBuf>,
    state: Mutex<State>,
    schedule: Mutex<Schedule>,
    epoch: AtomicU64,
    /// When a request has to ask the schedule, in milliseconds since `made`; the lock is not touched before that.
    ask_at: AtomicU64,
    made: Instant,
}

struct State {
    judge: Arc<dyn ServerCertVerifier>,
    ca_digest: Digest,
    identity: Option<Arc<CertifiedKey>>,
    identity_digest: Digest,
    config: Arc<ClientConfig>,
}

impl Material {
    /// Reads everything for the first time. Blocks while files are read.
    pub(crate) fn new(tls: &Tls, http: HttpVersions, now: Instant) -> Result<Self, ConfigError> {
        let (judge, ca_digest) = match (&tls.ca, tls.insecure_skip_verify) {
            (Some(_), true) => {
                let problem = "specifying a root certificates file with the insecure flag is not allowed";
                return Err(ConfigError::Invalid { problem: problem.into() });
            }
            (None, true) => {
                tracing::warn!(
                    "the server's certificate is not verified: whoever is on the network can read and change everything"
                );
                (Judge::lenient(), Digest::default())
            }
            (ca, false) => {
                let (roots, digest) = roots::first(ca.as_ref())?;
                (Judge::strict(roots), digest)
            }
        };
        let judge: Arc<dyn ServerCertVerifier> = Arc::new(judge);
        let (identity, identity_digest) = match &tls.identity {
            None => (None, Digest::default()),
            Some(identity) => {
                let shown = identity::load(identity)?;
                (Some(shown.key), shown.digest)
            }
        };
        let config = configure(&judge, identity.as_ref(), http)
            .map_err(|error| ConfigError::Invalid { problem: format!("TLS cannot be set up: {error}") })?;
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
            http,
            identity_files,
            ca_file,
            ask_at: AtomicU64::new(0),
            made: now,
            epoch: AtomicU64::new(0),
            state: Mutex::new(State { judge, ca_digest, identity, identity_digest, config }),
            schedule: Mutex::new(schedule),
        };
        material.note_next(&lock(&material.schedule));
        Ok(material)
    }

    /// How often the material has changed since it was made.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The configuration for a connection made now, and its epoch.
    pub(crate) fn current(&self) -> (Arc<ClientConfig>, u64) {
        let state = lock(&self.state);
        // The epoch only changes under this lock, so the two belong together.
        (Arc::clone(&state.config), self.epoch())
    }

    /// A request is about to be made. If it is time to look at the files, that begins on another thread; it is not waited
    /// for. Answers with the epoch. Cheap: while nothing is due, two loads.
    pub(crate) fn touch(self: &Arc<Self>, now: Instant) -> u64 {
        if self.since_made(now) >= self.ask_at.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
        {
            let due = self.claim(Occasion::Request, now);
            if due.any() {
                let material = Arc::clone(self);
                runtime.spawn_blocking(move || material.look(due));
            }
        }
        self.epoch()
    }

    /// A connection is about to be made: the configuration for it and its epoch, after a look at the files if the last one
    /// is not from just now.
    pub(crate) async fn for_handshake(self: &Arc<Self>, now: Instant) -> (Arc<ClientConfig>, u64) {
        let due = self.claim(Occasion::Handshake, now);
        if due.any() {
            let material = Arc::clone(self);
            // Fails only if the runtime is going down or the look panicked; in both cases what there is will do.
            if let Err(error) = tokio::task::spawn_blocking(move || material.look(due)).await {
                tracing::warn!(%error, "could not look at the TLS files; going on with what was read before");
            }
        }
        self.current()
    }

    fn claim(&self, occasion: Occasion, now: Instant) -> Due {
        let mut schedule = lock(&self.schedule);
        let due = schedule.claim(occasion, now);
        self.note_next(&schedule);
        due
    }

    fn note_next(&self, schedule: &Schedule) {
        self.ask_at
            .store(schedule.next_for_request().map_or(u64::MAX, |next| self.since_made(next)), Ordering::Relaxed);
    }

    fn since_made(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads what is due, and makes it current if it is new and good. Blocks.
    pub(super) fn look(&self, due: Due) {
        if due.identity {
            self.look_at_identity();
        }
        if due.ca {
            self.look_at_ca();
        }
    }

    fn look_at_identity(&self) {
        let Some(files) = &self.identity_files else { return };
        let known = lock(&self.state).identity_digest;
        let shown = match identity::load(files) {
            Ok(shown) if shown.digest == known => return,
            Ok(shown) => shown,
            Err(error) => {
                // Between the writing of the one file and the other the two do not belong together; the next look will tell.
                tracing::warn!(
                    error = error_chain(&error),
                    "the client certificate on disk cannot be used; the old one stays"
                );
                return;
            }
        };
        let mut state = lock(&self.state);
        match configure(&state.judge, Some(&shown.key), self.http) {
            Ok(config) => {
                state.identity = Some(shown.key);
                state.identity_digest = shown.digest;
                self.replace(&mut state, config);
                tracing::info!("the client certificate was renewed; new connections show the new one");
            }
            Err(error) => tracing::warn!(%error, "the client certificate on disk cannot be used; the old one stays"),
        }
    }

    fn look_at_ca(&self) {
        let Some(path) = &self.ca_file else { return };
        let known = lock(&self.state).ca_digest;
        let outcome = match roots::changed(path, &known) {
            Ok(None) => ("success", "unchanged"),
            Ok(Some((roots, digest))) => {
                let mut state = lock(&self.state);
                let judge: Arc<dyn ServerCertVerifier> = Arc::new(Judge::strict(roots));
                match configure(&judge, state.identity.as_ref(), self.http) {
                    Ok(config) => {
                        state.judge = judge;
                        state.ca_digest = digest;
                        self.replace(&mut state, config);
                        tracing::info!(path = %path.display(), "the certificate authority was renewed");
                        ("success", "updated")
                    }
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "the new certificate authority cannot be used");
                        ("failure", "ca_parse_error")
                    }
                }
            }
            Err(error) => {
                tracing::warn!(
                    path = %path.display(), error = error_chain(&error),
                    "the certificate authority's file cannot be used; what was read before stays"
                );
                (
                    "failure",
                    match error {
                        RootsError::Read(_) => "read_error",
                        RootsError::Empty => "empty",
                        RootsError::NoCertificate => "ca_parse_error",
                    },
                )
            }
        };
        let (result, reason) = outcome;
        metrics::counter!("rest_client_transport_ca_reload_total", "result" => result, "reason" => reason).increment(1);
    }

    fn replace(&self, state: &mut State, config: Arc<ClientConfig>) {
        state.config = config;
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// A new configuration has no sessions to resume: nothing of an old identity or an old trust is carried over.
fn configure(
    judge: &Arc<dyn ServerCertVerifier>,
    identity: Option<&Arc<CertifiedKey>>,
    http: HttpVersions,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(judge));
    let mut config = match identity {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key)))),
        None => builder.with_no_client_auth(),
    };
    let (h2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
    config.alpn_protocols = match http {
        HttpVersions::Any => vec![h2, http1],
        HttpVersions::Http1Only => vec![http1],
        HttpVersions::Http2Only => vec![h2],
    };
    Ok(Arc::new(config))
}

/// An error and its causes on one line, for the log.
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

/// Nothing that can panic is done while these are held, and if it were, what is in them would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").field("http", &self.http).field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
