//! Trust, over real handshakes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::config::{HttpVersions, Pem};
use evenkeel_client::tls::default_provider;
use evenkeel_client::transport::TransportFault;
use evenkeel_client::{Client, Config, Error, Path};
use http::Method;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::raw::answer;
use crate::support::{at, client, config, error_chain, soon, without_credentials};

async fn version(config: Config) -> Result<(), Error> {
    let client = Client::new(config).unwrap();
    soon(client.request(Method::GET, Path::raw("/version")).send()).await.map(drop)
}

async fn refused(config: Config) -> (TransportFault, String) {
    let error = version(config).await.unwrap_err();
    let text = error_chain(&error);
    match error {
        Error::Transport { source, previous: None, .. } => (source.fault(), text),
        other => panic!("{other:?}"),
    }
}

/// A CA, and a server with a certificate of it that is valid in these years and for these names.
struct Vouched {
    url: String,
    ca: String,
    _tasks: JoinSet<()>,
}

impl Vouched {
    async fn start(name: &str, years: (i32, i32)) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let server = ServerConfig::builder_with_provider(default_provider().unwrap())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, TlsAcceptor::from(Arc::new(server))));
        Vouched { url, ca: authority.pem(), _tasks: tasks }
    }

    fn config(&self) -> Config {
        let mut config = at(&self.url);
        config.tls.ca = Some(Pem::Data(self.ca.clone()));
        config
    }
}

/// Responds to one request of each connection with an empty object.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(mut stream) = acceptor.accept(stream).await else { continue };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let _ = stream.write_all(&answer(200, "content-type: application/json\r\n", "{}")).await;
        let _ = stream.shutdown().await;
    }
}

#[tokio::test]
async fn a_certificate_is_valid_for_its_time_and_its_name() {
    version(Vouched::start("127.0.0.1", (2020, 4000)).await.config()).await.unwrap();

    for (years, why) in [((2001, 2002), "expired"), ((3999, 4000), "not valid before 3999-01-01")] {
        let (fault, text) = refused(Vouched::start("127.0.0.1", years).await.config()).await;
        assert_eq!(fault, TransportFault::Tls, "{text}");
        assert!(text.contains(why), "{text}");
    }

    let other = Vouched::start("other.example", (2020, 4000)).await;
    let (fault, text) = refused(other.config()).await;
    assert_eq!(fault, TransportFault::Tls, "{text}");
    assert!(text.contains("other.example"), "{text}");
    let mut config = other.config();
    config.tls.server_name = Some("other.example".into());
    version(config).await.unwrap();
}

#[tokio::test]
async fn another_ca_is_not_trusted() {
    let server = ApiServer::builder().tls().start().await.unwrap();
    let another = ApiServer::builder().tls().start().await.unwrap();
    version(config(&server)).await.unwrap();
    let before = server.requests().len();
    let mut config = config(&server);
    config.tls.ca = another.ca_pem().map(|pem| Pem::Data(pem.to_owned()));
    let (fault, text) = refused(config).await;
    assert_eq!(fault, TransportFault::Tls, "{text}");
    assert!(text.contains("127.0.0.1") && text.contains("certificate"), "{text}");
    // Nor are the system's CAs.
    let mut config = without_credentials(&server);
    config.tls.ca = None;
    let (fault, text) = refused(config).await;
    assert_eq!(fault, TransportFault::Tls, "{text}");
    assert_eq!(server.requests().len(), before, "nothing was sent to an unknown server");
    // Verification can be disabled.
    let mut config = self::config(&server);
    config.tls.ca = None;
    config.tls.insecure_skip_verify = true;
    version(config).await.unwrap();
}

#[tokio::test]
async fn a_tls_mismatch_is_an_error() {
    // A plain server at an https URL.
    let plain = ApiServer::start().await.unwrap();
    let (fault, text) = refused(at(&plain.url().replace("http://", "https://"))).await;
    assert_eq!(fault, TransportFault::Tls, "{text}");
    assert!(plain.requests().is_empty());

    // A server with TLS at an http URL.
    let secure = ApiServer::builder().tls().start().await.unwrap();
    let url = secure.url().replace("https://", "http://");
    for http in [HttpVersions::Http1Only, HttpVersions::Http2Only] {
        let mut config = at(&url);
        config.connections.http = http;
        config.retry.max_retries = 0;
        let (fault, text) = refused(config).await;
        let expected = [TransportFault::Protocol, TransportFault::Closed, TransportFault::Http2Lost];
        assert!(expected.contains(&fault), "{fault:?}: {text}");
    }

    // A peer that closes, or never responds.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let hung_up = tokio::spawn(async move {
        drop(listener.accept().await);
        listener
    });
    let mut config = at(&format!("https://{address}"));
    config.retry.max_retries = 0;
    let (fault, text) = refused(config.clone()).await;
    assert!([TransportFault::Connect, TransportFault::Tls].contains(&fault), "{fault:?}: {text}");
    let _silent = hung_up.await.unwrap();
    config.connections.tls_timeout = Duration::from_millis(50);
    let (fault, text) = refused(config).await;
    assert_eq!(fault, TransportFault::ConnectTimeout, "{text}");
}

#[tokio::test]
async fn http2_is_used_only_with_servers_that_support_it() {
    // This server does not support ALPN.
    let vouched = Vouched::start("127.0.0.1", (2020, 4000)).await;
    let mut config = vouched.config();
    version(config.clone()).await.unwrap();
    config.connections.http = HttpVersions::Http2Only;
    let (fault, text) = refused(config).await;
    assert_eq!(fault, TransportFault::Tls, "{text}");
    assert!(text.contains("HTTP/2"), "{text}");
}

#[tokio::test]
async fn credentials_are_not_sent_over_plain_http_to_other_machines() {
    let mut config = at("http://192.0.2.1:8080");
    config.auth = evenkeel_client::config::Auth::Token("secret".into());
    let error = Client::new(config).unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
    assert!(!error_chain(&error).contains("secret"), "{error}");
    let server = ApiServer::builder().token("secret").start().await.unwrap();
    soon(client(&server).server_version()).await.unwrap();
}
