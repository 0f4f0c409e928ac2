//! Secured servers over sockets, and their certificates.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, User};
use evenkeel_client::tls::default_provider;
use jiff::SignedDuration;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::health::{Diagnostics, Health, HealthServer, SecureServing};
use crate::secure::certificate::ServingCertificate;
use crate::tls::CurrentPair;

/// A secured server with a made certificate, and an API server that knows the tokens `good` and `weak`.
struct Secured {
    server: HealthServer,
    slot: CurrentPair,
    _api_server: ApiServer,
}

impl Secured {
    async fn start() -> Self {
        let user = |name: &str| User { name: name.to_owned(), ..User::default() };
        // The embedded server denies only anonymous users.
        let tokens = [("good".to_owned(), user("scraper")), ("weak".to_owned(), user("system:anonymous"))];
        let api_server = ApiServer::builder().in_process_only().tokens(tokens).start().await.unwrap();
        let empty = tempfile::tempdir().unwrap();
        let (slot, _) = prepare(&empty);
        let server = HealthServer::builder(&Health::new())
            .address("127.0.0.1:0")
            .metrics(|| "up 1\n".to_owned())
            .diagnostics(&Diagnostics::new())
            .secured(SecureServing::reviewed_by(&api_server.client()).certificate(&slot))
            .start()
            .await
            .unwrap();
        Secured { server, slot, _api_server: api_server }
    }

    /// Connects with these protocols, and returns the stream and the protocol that the server has chosen.
    async fn connect(
        &self,
        alpn: &[&[u8]],
    ) -> std::io::Result<(tokio_rustls::client::TlsStream<TcpStream>, Option<Vec<u8>>)> {
        let mut roots = RootCertStore::empty();
        roots.add(self.slot.get().unwrap().chain()[0].clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(default_provider().unwrap())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.server.address().unwrap()).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let chosen = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        Ok((stream, chosen))
    }

    async fn get(&self, path: &str, token: Option<&str>) -> String {
        let (mut stream, _) = self.connect(&[]).await.unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // A connection that is closed without a close_notify has delivered its response.
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap()
    }
}

/// Prepares the certificate of a server with this directory.
fn prepare(directory: &TempDir) -> (CurrentPair, ServingCertificate) {
    let slot = CurrentPair::empty();
    let provider = default_provider().unwrap();
    let certificate = ServingCertificate::prepare(directory.path().to_owned(), &slot, &provider).unwrap();
    (slot, certificate)
}

/// Writes a pair for `metrics.example` into a directory.
fn write_files(directory: &TempDir) {
    let issued = rcgen::generate_simple_self_signed(vec!["metrics.example".to_owned()]).unwrap();
    std::fs::write(directory.path().join("tls.key"), issued.signing_key.serialize_pem()).unwrap();
    std::fs::write(directory.path().join("tls.crt"), issued.cert.pem()).unwrap();
}

#[tokio::test]
async fn sme_001_it_is_off_unless_it_is_switched_on() {
    let builder = HealthServer::builder(&Health::new()).address("127.0.0.1:0").metrics(|| "up 1\n".to_owned());
    let server = builder.start().await.unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("up 1\n"), "{response}");
}

#[tokio::test]
async fn sme_004_everything_but_health_is_behind_the_filter() {
    let secured = Secured::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz?verbose"] {
        assert!(secured.get(path, None).await.starts_with("HTTP/1.1 200 "), "{path}");
    }
    for path in ["/metrics", "//metrics", "/debug", "/debug/queues", "/other", "/"] {
        let response = secured.get(path, None).await;
        assert!(response.starts_with("HTTP/1.1 401 ") && response.contains("Unauthorized"), "{path}: {response}");
        let response = secured.get(path, Some("weak")).await;
        assert!(response.starts_with("HTTP/1.1 403 "), "{path}: {response}");
        assert!(response.ends_with("Authorization denied for user system:anonymous\n"), "{response}");
    }
    let response = secured.get("/metrics", Some("good")).await;
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("up 1\n"), "{response}");
    assert!(secured.get("/debug", Some("good")).await.starts_with("HTTP/1.1 200 "));
    // Without TLS there is no response.
    let mut plain = TcpStream::connect(secured.server.address().unwrap()).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP"), "{response:?}");
    secured.server.shutdown().await;
}

#[tokio::test]
async fn sme_012_and_ohc_015_alpn_is_http_1_1_and_refuses_h2() {
    let secured = Secured::start().await;
    let (_stream, chosen) = secured.connect(&[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(chosen.as_deref(), Some(&b"http/1.1"[..]));
    secured.connect(&[b"h2"]).await.map(|_| ()).unwrap_err();
}

#[tokio::test]
async fn sme_002_files_are_served_and_without_them_a_certificate_for_localhost() {
    let directory = tempfile::tempdir().unwrap();
    let (made, _) = prepare(&directory);
    let made = made.get().unwrap();
    assert!(made.is_for("localhost") && made.is_for("127.0.0.1") && !made.is_for("metrics.example"));
    let validity = made.not_after().duration_since(made.not_before());
    assert_eq!(validity.as_hours(), 365 * 24 + 1);
    write_files(&directory);
    let (read, certificate) = prepare(&directory);
    assert!(read.get().unwrap().is_for("metrics.example"));
    assert!(matches!(certificate, ServingCertificate::Files(_)));
}

#[tokio::test(start_paused = true)]
async fn sme_003_a_made_certificate_is_renewed_and_replaced_by_files() {
    let directory = tempfile::tempdir().unwrap();
    let (slot, certificate) = prepare(&directory);
    let first = slot.get().unwrap();
    let ServingCertificate::Made(mut made) = certificate else { panic!("there are no files") };
    let made_at = first.not_before() + SignedDuration::from_hours(1);
    let day = |days: i64| made_at + SignedDuration::from_hours(24 * days);
    assert!(!made.renew_if_due(day(243)).unwrap());
    assert!(made.renew_if_due(day(244)).unwrap());
    let second = slot.get().unwrap();
    assert_ne!(first.chain(), second.chain());
    assert!(second.not_after() > first.not_after() + SignedDuration::from_hours(24 * 243));
    let keeping = tokio::spawn(ServingCertificate::Made(made).run());
    std::fs::write(directory.path().join("tls.crt"), "not yet").unwrap();
    std::fs::write(directory.path().join("tls.key"), "not yet").unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(slot.get().unwrap().chain(), second.chain(), "unusable files change nothing");
    write_files(&directory);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(slot.get().unwrap().is_for("metrics.example"));
    // From here on the files are reloaded.
    let third = slot.get().unwrap();
    write_files(&directory);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_ne!(slot.get().unwrap().chain(), third.chain());
    keeping.abort();
}
