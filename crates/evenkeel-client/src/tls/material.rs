//! [`Material`]: what connections are protected with at this moment.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::digest::Digest;
use super::roots::RootsError;
use super::schedule::{Due, Occasion, Schedule};
use super::verify::Judge;
use super::{identity, provider, roots};
use crate::config::{ConfigError, HttpVersions, Identity, Pem, PrivateKey, Tls};

/// How long a handshake waits for a look at the files.
const PATIENCE: Duration = Duration::from_secs(1);

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
    config: Arc<ClientConfig>,
    ca: Digest,
    identity: Digest,
}

impl Material {
    /// Reads everything for the first time. Blocks while files are read.
    pub(crate) fn new(tls: &Tls, http: HttpVersions, now: Instant) -> Result<Self, ConfigError> {
        let (judge, ca_digest) = match (&tls.ca, tls.insecure_skip_verify) {
            (Some(_), true) => {
                let problem = "specifying a root certificates file with the insecure flag is not allowed";
                return Err(ConfigError::Invalid { problem: problem.into() });
            }
            (None, true) => (Judge::lenient(), Digest::default()),
            (ca, false) => {
                let (roots, digest) = roots::first(ca.as_ref())?;
                (Judge::strict(roots), digest)
            }
        };
        let (identity, identity_digest) = match &tls.identity {
            None => (None, Digest::default()),
            Some(identity) => {
                let shown = identity::load(identity)?;
                (Some(shown.key), shown.digest)
            }
        };
        let config = configure(Arc::new(judge), identity, http)?;
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
            identity_files,
            ca_file,
            ask_at: AtomicU64::new(0),
            made: now,
            epoch: AtomicU64::new(0),
            state: Mutex::new(State { config, ca: ca_digest, identity: identity_digest }),
            schedule: Mutex::new(schedule),
        };
        material.note_next(&lock(&material.schedule));
        Ok(material)
    }

    /// How often the material has changed since it was made.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The configuration for a connection made now.
    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        Arc::clone(&lock(&self.state).config)
    }

    /// A request is about to be made. If it is time to look at the files, that begins on another thread; it is not waited
    /// for: what it finds is for the requests after this one. Answers with the epoch. Cheap: while nothing is due, two
    /// loads.
    pub(crate) fn touch(self: &Arc<Self>, now: Instant) -> u64 {
        let epoch = self.epoch();
        if self.since_made(now) >= self.ask_at.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
            && let Some(look) = self.claim(Occasion::Request, now)
        {
            runtime.spawn_blocking(move || look.run());
        }
        epoch
    }

    /// A connection is about to be made: the configuration for it, after a look at the files if the last one is not from
    /// just now.
    pub(crate) async fn for_handshake(self: &Arc<Self>, now: Instant) -> Arc<ClientConfig> {
        if let Some(look) = self.claim(Occasion::Handshake, now) {
            // A file system that hangs, a runtime that goes down: what was read before will do.
            let looked = timeout(PATIENCE, tokio::task::spawn_blocking(move || look.run())).await;
            if !matches!(looked, Ok(Ok(()))) {
                tracing::warn!("the TLS files could not be looked at in time; what was read before stays");
            }
        }
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

    fn look_at_identity(&self) {
        let Some(files) = &self.identity_files else { return };
        let known = lock(&self.state).identity;
        match identity::load(files) {
            Ok(shown) if shown.digest == known => {}
            Ok(shown) => {
                self.renew(|state, config| {
                    state.identity = shown.digest;
                    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown.key));
                });
                tracing::info!("the client certificate was renewed; new connections show the new one");
            }
            // Between the writing of the one file and of the other, the two do not belong together; the next look will tell.
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
                self.renew(|state, config| {
                    state.ca = digest;
                    config.dangerous().set_certificate_verifier(Arc::new(Judge::strict(roots)));
                });
                tracing::info!(path = %path.display(), "the certificate authority was renewed");
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

    /// Makes a changed copy of the configuration the current one. It has no sessions to resume: nothing of an old identity
    /// or of an old trust is carried over.
    fn renew(&self, change: impl FnOnce(&mut State, &mut ClientConfig)) {
        let mut state = lock(&self.state);
        let mut config = ClientConfig::clone(&state.config);
        config.resumption = Resumption::default();
        change(&mut state, &mut config);
        state.config = Arc::new(config);
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// A look at files that somebody has taken on. Until it is done, or given up, nobody else is asked to.
pub(super) struct Look {
    material: Arc<Material>,
    due: Due,
}

impl Look {
    /// Reads what is due, and makes it current if it is new and good. Blocks.
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

/// A configuration that trusts as the judge does, shows this identity and offers these versions of HTTP.
pub(super) fn configure(
    judge: Arc<Judge>,
    identity: Option<Arc<CertifiedKey>>,
    http: HttpVersions,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| ConfigError::Invalid { problem: format!("TLS cannot be set up: {error}") })?
        .dangerous()
        .with_custom_certificate_verifier(judge);
    let mut config = match identity {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
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
        f.debug_struct("Material").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
