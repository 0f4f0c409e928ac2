//! A certificate that changes while requests are answered.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use evenkeel_base::http::ShutdownSignal;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use tokio::io::duplex;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::super::activity::Activity;
use super::super::listener::serve;
use super::super::readiness::now;
use super::*;
use crate::certificates::{Authority, IssuedPair};

/// A Secret as kubelet mounts it: files are links into `..data`, a link that is renamed.
struct Mounted {
    directory: tempfile::TempDir,
    updates: usize,
}

impl Mounted {
    fn new(pair: &IssuedPair) -> Self {
        let mut mounted = Mounted { directory: tempfile::tempdir().unwrap(), updates: 0 };
        mounted.update(pair);
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), mounted.directory.path().join(file)).unwrap();
        }
        mounted
    }

    fn update(&mut self, pair: &IssuedPair) {
        self.updates += 1;
        let (root, dated) = (self.directory.path(), format!("..dated-{}", self.updates));
        std::fs::create_dir(root.join(&dated)).unwrap();
        // In paused time, files of two updates may have the same time.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + self.updates as u64);
        for (name, content) in [("tls.crt", pair.certificate()), ("tls.key", pair.key())] {
            let path = root.join(&dated).join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
        }
        symlink(&dated, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    }
}

/// A connection to the server in memory, and the certificate that its handshake has shown.
struct Connected {
    sender: SendRequest<Full<Bytes>>,
    leaf: CertificateDer<'static>,
    _stop: watch::Sender<bool>,
}

async fn connect(server: &WebhookServer, tls: &ServerTls, root: &CertificateDer<'static>) -> Connected {
    let (ours, theirs) = duplex(256 << 10);
    let (stop, shutdown) = ShutdownSignal::channel();
    let (shared, tls) = (Arc::clone(&server.shared), tls.clone());
    tokio::spawn(async move { serve(theirs, &tls, shared, Activity::new(), shutdown).await.map_err(|_| ()) });
    let name = ServerName::try_from("hooks.system.svc").unwrap();
    let stream = TlsConnector::from(client_config(root)).connect(name, ours).await.unwrap();
    let leaf = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Connected { sender, leaf, _stop: stop }
}

impl Connected {
    async fn ask(&mut self) {
        let (code, text) = text_of(self.sender.send_request(post(PATH, review())).await.unwrap()).await;
        assert!(code == 200 && is_allowed(&text), "{code} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn ohc_002_no_request_fails_while_a_mounted_certificate_changes_ten_times() {
    let authority = Authority::generate(now()).unwrap();
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
    let issue = || authority.issue(&["hooks.system.svc"], now()).unwrap();
    let mut mounted = Mounted::new(&issue());
    let path = |file: &str| mounted.directory.path().join(file);
    let watcher = CertificateWatcher::builder(path("tls.crt"), path("tls.key")).load().unwrap();
    let tls = watcher.server_tls().clone();
    let reloading = tokio::spawn(watcher.run());
    let server = WebhookServer::builder().hook(hook()).build().unwrap();
    let mut kept = connect(&server, &tls, &root).await;

    for _ in 0..10 {
        let next = issue();
        let next_leaf = CertificateDer::from_pem_slice(next.certificate().as_bytes()).unwrap();
        mounted.update(&next);
        let mut is_served = false;
        // 200 requests a second for two seconds, every twentieth on a connection of its own.
        for number in 0..400 {
            if number % 20 == 0 {
                let mut fresh = connect(&server, &tls, &root).await;
                fresh.ask().await;
                let is_next = fresh.leaf == next_leaf;
                assert!(is_next || !is_served, "the old certificate came back");
                is_served = is_next;
            } else {
                kept.ask().await;
            }
            sleep(Duration::from_millis(5)).await;
        }
        assert!(is_served, "within two seconds");
    }
    reloading.abort();
}
