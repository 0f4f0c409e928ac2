//! Certificates that change, over handshakes in memory and in paused time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A certificate and its key, in PEM.
struct Issued {
    certificate: String,
    key: String,
}

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issue(authority: &Issuer<'static, KeyPair>, serial: u64) -> Issued {
    let mut params = CertificateParams::new(vec!["hooks.system.svc".to_owned()]).unwrap();
    params.serial_number = Some(serial.into());
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap().pem();
    Issued { certificate, key: key.serialize_pem() }
}

/// A directory like that of a mounted Secret: `tls.crt` → `..data/tls.crt`, `..data` → a dated directory.
struct Mounted {
    root: TempDir,
    updates: usize,
}

impl Mounted {
    fn new(issued: &Issued) -> Self {
        let mut mounted = Mounted { root: tempfile::tempdir().unwrap(), updates: 0 };
        mounted.update(issued);
        for name in ["tls.crt", "tls.key"] {
            symlink(&Path::new("..data").join(name), &mounted.path(name));
        }
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Replaces both files at once, as kubelet does.
    fn update(&mut self, issued: &Issued) {
        self.updates += 1;
        let dated = self.path(&format!("..{}", self.updates));
        std::fs::create_dir(&dated).unwrap();
        for (name, content) in [("tls.crt", &issued.certificate), ("tls.key", &issued.key)] {
            std::fs::write(dated.join(name), content).unwrap();
            self.touch(&dated.join(name));
        }
        symlink(&dated, &self.path("..data_tmp"));
        std::fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
    }

    fn write(&mut self, name: &str, content: &str) {
        self.updates += 1;
        std::fs::write(self.path(name), content).unwrap();
        self.touch(&self.path(name));
    }

    /// Gives each update a time of its own: in paused time all of them happen within one tick of the file system's clock.
    fn touch(&self, path: &Path) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + self.updates as u64);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn watcher(&self) -> CertificateWatcherBuilder {
        CertificateWatcher::builder(self.path("tls.crt"), self.path("tls.key"))
    }
}

fn symlink(target: &Path, link: &Path) {
    #[cfg(unix)]
    std::os::unix::fs::symlink(target, link).unwrap();
    #[cfg(not(unix))]
    std::os::windows::fs::symlink_file(target, link).unwrap();
}

/// Does a handshake, and returns the serial number and the length of the chain that the server shows.
async fn handshake(
    tls: &ServerTls,
    roots: &Authority,
    client: Option<&Issued>,
) -> Result<(u64, usize), std::io::Error> {
    let (server, stream) = duplex(64 << 10);
    let mut store = RootCertStore::empty();
    store.add(roots.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::clone(tls.crypto_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("hooks.system.svc").unwrap();
    let serve = async {
        let mut stream = tls.accept(server).await?;
        stream.write_all(b"!").await?;
        stream.flush().await?;
        Ok::<_, std::io::Error>(stream)
    };
    let connect = async {
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.read_u8().await?;
        Ok::<_, std::io::Error>(stream)
    };
    let (served, connected) = tokio::join!(serve, connect);
    served?;
    let connected = connected?;
    let chain = connected.get_ref().1.peer_certificates().unwrap();
    let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
    Ok((leaf.tbs_certificate.serial.iter_u64_digits().next().unwrap_or(0), chain.len()))
}

/// Records the metrics of this thread.
fn recorder() -> (Snapshotter, metrics::LocalRecorderGuard<'static>) {
    let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
    (recorder.snapshotter(), metrics::set_default_local_recorder(recorder))
}

/// Returns the value of a metric. A snapshot resets all counters.
fn value(snapshotter: &Snapshotter, name: &str) -> f64 {
    values(snapshotter).remove(name).unwrap_or_default()
}

fn values(snapshotter: &Snapshotter) -> HashMap<String, f64> {
    let values = snapshotter.snapshot().into_vec().into_iter().map(|(key, .., value)| {
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(gauge) => gauge.into_inner(),
            DebugValue::Histogram(_) => 0.0,
        };
        (key.key().name().to_owned(), value)
    });
    values.collect()
}

#[test]
fn cwt_001_missing_malformed_or_unmatched_files_are_an_error_at_the_start() {
    let ca = authority();
    let (one, other) = (issue(&ca, 1), issue(&ca, 2));
    let mut mounted = Mounted::new(&one);
    assert!(mounted.watcher().load().is_ok());
    let missing = CertificateWatcher::builder(mounted.path("none"), mounted.path("tls.key")).load().unwrap_err();
    assert!(matches!(missing, TlsError::Read { .. }), "{missing}");
    mounted.write("tls.key", &other.key);
    assert!(matches!(mounted.watcher().load().unwrap_err(), TlsError::Mismatch));
    mounted.write("tls.key", "no key");
    assert!(matches!(mounted.watcher().load().unwrap_err(), TlsError::NoKey));
    mounted.write("tls.crt", "no certificate");
    assert!(matches!(mounted.watcher().load().unwrap_err(), TlsError::NoCertificate));
    let directory = CertificateWatcher::builder(mounted.root.path(), mounted.path("tls.key")).load().unwrap_err();
    assert!(directory.to_string().contains("not a regular file"), "{directory}");
}

#[tokio::test(start_paused = true)]
async fn cwt_002_and_cwt_008_a_renamed_directory_is_served_within_a_second() {
    let ca = authority();
    let mut mounted = Mounted::new(&issue(&ca, 1));
    let watcher = mounted.watcher().load().unwrap();
    let tls = watcher.server_tls().clone();
    let running = tokio::spawn(watcher.run());
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 1);
    for serial in 2..12 {
        mounted.update(&issue(&ca, serial));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, serial);
    }
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn cwt_002_contents_are_read_every_ten_seconds_even_if_the_files_look_unchanged() {
    let (snapshotter, _guard) = recorder();
    let ca = authority();
    let mounted = Mounted::new(&issue(&ca, 1));
    let watcher = mounted.watcher().load().unwrap();
    // The same stamps as before, with other contents.
    let stamps = watcher_stamps(&mounted);
    let start = tokio::time::Instant::now();
    let mut schedule = schedule::ReadSchedule::new(stamps, start);
    assert!(!schedule.is_due(stamps, start + Duration::from_millis(9_999)));
    assert!(schedule.is_due(stamps, start + Duration::from_secs(10)));
    assert!(!schedule.is_due(stamps, start + Duration::from_secs(11)));
    assert!(schedule.is_due([None; 3], start + Duration::from_secs(12)), "a missing file is a change");
    let running = tokio::spawn(watcher.run());
    sleep(Duration::from_secs(35)).await;
    assert_eq!(value(&snapshotter, "certwatcher_read_certificate_total"), 4.0, "at the start and every 10 s");
    running.abort();
}

fn watcher_stamps(mounted: &Mounted) -> schedule::FileStamps {
    let length = std::fs::metadata(mounted.path("tls.crt")).unwrap().len();
    [Some((length, None)), None, None]
}

#[tokio::test(start_paused = true)]
async fn cwt_003_a_removed_file_is_picked_up_when_it_is_back() {
    let ca = authority();
    let mut mounted = Mounted::new(&issue(&ca, 1));
    let watcher = mounted.watcher().load().unwrap();
    let tls = watcher.server_tls().clone();
    let running = tokio::spawn(watcher.run());
    std::fs::remove_file(mounted.path("tls.crt")).unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 1);
    let renewed = issue(&ca, 2);
    mounted.write("tls.key", &renewed.key);
    mounted.write("tls.crt", &renewed.certificate);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 2);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn ohc_003_cwt_004_and_cwt_007_the_old_pair_is_served_until_the_new_one_is_complete() {
    let ca = authority();
    let mut mounted = Mounted::new(&issue(&ca, 1));
    let (snapshotter, _guard) = recorder();
    let mut watcher = mounted.watcher().load().unwrap();
    let tls = watcher.server_tls().clone();
    let until = value(&snapshotter, "certwatcher_certificate_not_after_seconds");
    assert_eq!(until as i64, tls.pair().get().unwrap().not_after().as_second());
    assert_eq!(value(&snapshotter, "certwatcher_read_certificate_errors_total"), 0.0);

    // The certificate arrives before its key.
    let renewed = issue(&ca, 2);
    mounted.write("tls.crt", &renewed.certificate);
    watcher.poll().await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 1);
    assert_eq!(value(&snapshotter, "certwatcher_read_certificate_errors_total"), 1.0);
    mounted.write("tls.key", &renewed.key);
    watcher.poll().await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 2);

    // A key that never matches changes nothing.
    mounted.write("tls.key", &issue(&ca, 3).key);
    for _ in 0..3 {
        watcher.poll().await;
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 2);
    let counted = values(&snapshotter);
    assert_eq!(counted["certwatcher_read_certificate_errors_total"], 3.0);
    assert_eq!(counted["certwatcher_read_certificate_total"], 4.0);
}

#[tokio::test(start_paused = true)]
async fn cwt_005_a_new_intermediate_under_the_same_leaf_is_served() {
    let ca = authority();
    let one = issue(&ca, 1);
    let mut mounted = Mounted::new(&one);
    let mut watcher = mounted.watcher().load().unwrap();
    let tls = watcher.server_tls().clone();
    assert_eq!(handshake(&tls, &ca, None).await.unwrap(), (1, 1));
    mounted.write("tls.crt", &format!("{}{}", one.certificate, ca.pem()));
    watcher.poll().await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap(), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn cwt_006_polling_needs_no_notifications() {
    // A directory that cannot be watched for changes is one whose files are only ever polled.
    let ca = authority();
    let mut mounted = Mounted::new(&issue(&ca, 1));
    let watcher = mounted.watcher().interval(Duration::from_secs(7)).load().unwrap();
    let tls = watcher.server_tls().clone();
    let running = tokio::spawn(watcher.run());
    sleep(Duration::from_secs(1)).await;
    mounted.update(&issue(&ca, 2));
    sleep(Duration::from_secs(7)).await;
    assert_eq!(handshake(&tls, &ca, None).await.unwrap().0, 2);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn whs_007_clients_need_a_certificate_of_the_current_authority() {
    let (ca, clients, later) = (authority(), authority(), authority());
    let mut mounted = Mounted::new(&issue(&ca, 1));
    mounted.write("ca.crt", &clients.pem());
    let mut watcher = mounted.watcher().client_ca(mounted.path("ca.crt")).load().unwrap();
    let tls = watcher.server_tls().clone();
    let (known, foreign) = (issue(&clients, 7), issue(&later, 8));
    assert!(handshake(&tls, &ca, None).await.is_err());
    assert!(handshake(&tls, &ca, Some(&foreign)).await.is_err());
    assert!(handshake(&tls, &ca, Some(&known)).await.is_ok());

    mounted.write("ca.crt", &later.pem());
    watcher.poll().await;
    assert!(handshake(&tls, &ca, Some(&known)).await.is_err());
    assert!(handshake(&tls, &ca, Some(&foreign)).await.is_ok());
    mounted.write("ca.crt", "");
    watcher.poll().await;
    assert!(handshake(&tls, &ca, None).await.is_err(), "an unusable file keeps the authorities");
    assert!(handshake(&tls, &ca, Some(&foreign)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_handshake_without_a_pair_fails_and_a_silent_client_times_out() {
    let ca = authority();
    let slot = CurrentPair::empty();
    let tls = ServerTls::new(&slot, None).unwrap();
    assert!(handshake(&tls, &ca, None).await.is_err());
    let issued = issue(&ca, 1);
    let pair =
        || ServingPair::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes(), tls.crypto_provider()).unwrap();
    assert!(slot.set(pair()));
    assert!(!slot.set(pair()), "the same pair again is no change");
    assert!(handshake(&tls, &ca, None).await.is_ok());
    let (server, _silent) = duplex(1024);
    assert_eq!(tls.accept(server).await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert!(pair().is_for("hooks.system.svc") && !pair().is_for("other.system.svc"));
    let shown = format!("{:?}", pair());
    assert!(!shown.contains("PRIVATE") && shown.contains("not_after"), "{shown}");
}
