//! [`CertificateWatcher`]: reloads a certificate and its key from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::tls::default_provider;
use rustls::crypto::CryptoProvider;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zeroize::Zeroizing;

use super::schedule::{FileStamp, FileStamps, ReadSchedule};
use super::{CurrentPair, ServerTls, ServingPair, TlsError};

/// How often files are checked. Twice a second, so that a renewed pair is served within a second of its rename.
const INTERVAL: Duration = Duration::from_millis(500);
/// The maximum size of a file.
const MAX_FILE: u64 = 4 << 20;

const READS: &str = "certwatcher_read_certificate_total";
const ERRORS: &str = "certwatcher_read_certificate_errors_total";
const NOT_AFTER: &str = "certwatcher_certificate_not_after_seconds";

/// Reloads a serving certificate, its key and the certificate authority of clients from files. controller-runtime's
/// `certwatcher`.
///
/// It polls: the length and the time of each file twice a second, the contents when one of them has changed and every 10
/// seconds. So a Secret that is mounted into a pod is served within a second of kubelet's rename, on every file system and
/// without a limit of the operating system on file notifications.
///
/// Metrics: `certwatcher_read_certificate_total`, `certwatcher_read_certificate_errors_total`, and the gauge
/// `certwatcher_certificate_not_after_seconds`, the end of the certificate's validity as Unix time.
#[derive(Debug)]
pub struct CertificateWatcher {
    files: Files,
    interval: Duration,
    schedule: ReadSchedule,
    tls: ServerTls,
}

/// Configures a [`CertificateWatcher`]. See [`CertificateWatcher::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until load is called"]
pub struct CertificateWatcherBuilder {
    files: Files,
    interval: Duration,
    provider: Option<Arc<CryptoProvider>>,
    slot: CurrentPair,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// The contents of the files, parsed.
struct Loaded {
    pair: ServingPair,
    client_ca: Option<Vec<u8>>,
}

impl CertificateWatcher {
    /// Returns a builder for a watcher of these files, in PEM.
    pub fn builder(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> CertificateWatcherBuilder {
        let files = Files { certificate: certificate.into(), key: key.into(), client_ca: None };
        CertificateWatcherBuilder { files, interval: INTERVAL, provider: None, slot: CurrentPair::empty() }
    }

    /// Returns the server's side of TLS with what the files contain.
    pub fn server_tls(&self) -> &ServerTls {
        &self.tls
    }

    /// Reloads the files until it is dropped.
    pub async fn run(mut self) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.poll().await;
        }
    }

    pub(super) async fn poll(&mut self) {
        let files = self.files.clone();
        // On a file system that hangs, one thread is lost, not one per poll. An error means that the runtime shuts down.
        let Ok(stamps) = tokio::task::spawn_blocking(move || files.stamps()).await else { return };
        if !self.schedule.is_due(stamps, Instant::now()) {
            return;
        }
        metrics::counter!(READS).increment(1);
        let (files, provider) = (self.files.clone(), Arc::clone(self.tls.crypto_provider()));
        let Ok(read) = tokio::task::spawn_blocking(move || files.load(&provider)).await else { return };
        if let Err(error) = read.and_then(|loaded| self.apply(loaded)) {
            metrics::counter!(ERRORS).increment(1);
            let path = self.files.certificate.display();
            tracing::warn!(%path, %error, "the certificate on disk cannot be used; serving the previous one");
        }
    }

    fn apply(&self, loaded: Loaded) -> Result<(), TlsError> {
        if let Some(authorities) = &loaded.client_ca {
            self.tls.require_clients_of(authorities)?;
        }
        let not_after = loaded.pair.not_after();
        record_validity(&loaded.pair);
        if self.tls.pair().set(loaded.pair) {
            let path = self.files.certificate.display();
            tracing::info!(%path, %not_after, "serving certificate reloaded");
        }
        Ok(())
    }
}

impl CertificateWatcherBuilder {
    /// Requires client certificates that an authority in this file has issued. Default: none are requested.
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.client_ca = Some(file.into());
        self
    }

    /// Sets how often the files are checked. Default: every 500 ms.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets the crypto provider. Default: that of the client's feature `aws-lc-rs` or `ring`.
    pub fn crypto_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the slot that the watcher fills, once the files have been read.
    pub(crate) fn slot(mut self, slot: &CurrentPair) -> Self {
        self.slot = slot.clone();
        self
    }

    /// Reads the files. Blocks for as long as the file system takes.
    ///
    /// # Errors
    /// If a file is missing, unreadable or malformed, or if certificate and key do not belong together.
    pub fn load(self) -> Result<CertificateWatcher, TlsError> {
        let provider = self.provider.or_else(default_provider).ok_or(TlsError::NoCryptoProvider)?;
        metrics::describe_counter!(READS, "Total number of certificate reads");
        metrics::describe_counter!(ERRORS, "Total number of certificate read errors");
        metrics::describe_gauge!(NOT_AFTER, "End of the validity of the serving certificate, as Unix time");
        metrics::counter!(ERRORS).increment(0);
        metrics::counter!(READS).increment(1);
        let stamps = self.files.stamps();
        let loaded = self.files.load(&provider)?;
        record_validity(&loaded.pair);
        let tls = ServerTls::new(&self.slot, Some(provider))?;
        if let Some(authorities) = &loaded.client_ca {
            tls.require_clients_of(authorities)?;
        }
        self.slot.set(loaded.pair);
        let schedule = ReadSchedule::new(stamps, Instant::now());
        Ok(CertificateWatcher { files: self.files, interval: self.interval, schedule, tls })
    }
}

impl Files {
    fn stamps(&self) -> FileStamps {
        let stamp = |path: &Path| -> FileStamp {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()))
        };
        [stamp(&self.certificate), stamp(&self.key), self.client_ca.as_deref().and_then(stamp)]
    }

    fn load(&self, provider: &CryptoProvider) -> Result<Loaded, TlsError> {
        let certificate = read("the serving certificate", &self.certificate)?;
        let key = read("the private key of the serving certificate", &self.key)?;
        let pair = ServingPair::from_pem(&certificate, &key, provider)?;
        let client_ca = self.client_ca.as_deref().map(|path| read("the certificate authority of clients", path));
        Ok(Loaded { pair, client_ca: client_ca.transpose()?.map(|content| content.to_vec()) })
    }
}

/// Returns the content of a small regular file. The memory is overwritten on drop.
fn read(what: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let fault = |source| TlsError::Read { what, path: path.to_owned(), source };
    let refused = |problem: &str| fault(io::Error::new(io::ErrorKind::InvalidData, problem));
    // A pipe is rejected before it is opened: opening one blocks until a writer opens it.
    if !std::fs::metadata(path).map_err(fault)?.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let file = File::open(path).map_err(fault)?;
    let length = file.metadata().map_err(fault)?.len();
    if length > MAX_FILE {
        return Err(refused("it is larger than 4 MiB"));
    }
    // Allocated at full size, so that growing leaves no buffer with secrets behind.
    let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1));
    file.take(MAX_FILE).read_to_end(&mut content).map_err(fault)?;
    Ok(content)
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in a float")]
fn record_validity(pair: &ServingPair) {
    metrics::gauge!(NOT_AFTER).set(pair.not_after().as_second() as f64);
}
