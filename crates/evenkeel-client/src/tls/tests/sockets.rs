//! The dialer against servers that listen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use http_body_util::BodyExt as _;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::logs::Logs;
use super::pki::{Authority, VALID, server};
use crate::config::{Config, HttpVersions, Pem, Proxy, ServerUrl, Tls};
use crate::small_file::tests::Folder;
use crate::tls::Dialer;
use crate::transport::connect::{Dial as _, Dialed};
use crate::transport::pool::Pool;
use crate::transport::proxy::ProxyEnvironment;
use crate::transport::{Body, Lane, Transport, TransportError, TransportFault};

fn config(url: &str, tls: Tls) -> Config {
    let mut config = Config::new(ServerUrl::parse(url).unwrap());
    config.tls = tls;
    config.proxy = Proxy::Direct;
    config
}

fn dialer(config: &Config) -> Dialer {
    Dialer::new(config, &ProxyEnvironment::default(), None, Instant::now()).unwrap()
}

async fn dial(config: &Config) -> Result<Dialed, TransportError> {
    dialer(config).dial(Lane::Calls).await
}

/// Sends every client the server name that it requested.
async fn greeter(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut stream) = TlsAcceptor::from(Arc::clone(&config)).accept(socket).await else { continue };
            let asked = stream.get_ref().1.server_name().unwrap_or("no name").to_owned();
            let _ = stream.write_all(asked.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn all(mut dialed: Dialed) -> String {
    let mut text = String::new();
    dialed.io.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn sec_12_trn_008_the_configured_name_is_sent_and_checked() {
    let authority = Authority::new("ours");
    let named = greeter(server(&authority.server(&["kube.test"], VALID), &[], None)).await;
    let url = format!("https://{named}");
    let tls = Tls { server_name: Some("kube.test".into()), ..authority.trusted() };
    assert_eq!(all(dial(&config(&url, tls)).await.unwrap()).await, "kube.test");
    let error = dial(&config(&url, authority.trusted())).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::Tls, "the certificate is not for the address");

    let addressed = greeter(server(&authority.server(&["127.0.0.1"], VALID), &[], None)).await;
    let dialed = dial(&config(&format!("https://{addressed}"), authority.trusted())).await.unwrap();
    assert_eq!(all(dialed).await, "no name", "an address is not sent as SNI");
}

#[tokio::test]
async fn sec_10_without_verification_there_is_one_warning_per_client() {
    let address = greeter(server(&Authority::new("ours").server(&["kube.test"], VALID), &[], None)).await;
    let logs = Logs::default();
    let _guard = crate::test_logs::listen(logs.clone());
    let config = config(&format!("https://{address}"), Tls { insecure_skip_verify: true, ..Tls::default() });
    let _first = Transport::network(&config, None).unwrap();
    assert_eq!(logs.warnings(), 1, "{}", logs.text());
    let _second = Transport::network(&config, None).unwrap();
    assert_eq!(logs.warnings(), 2, "connections are shared, warnings are not: {}", logs.text());
    let dialer = dialer(&config);
    for _ in 0..3 {
        dialer.clone().dial(Lane::Calls).await.unwrap();
    }
    assert_eq!(logs.warnings(), 2, "{}", logs.text());
    assert!(logs.text().contains(&address.to_string()), "it names the server: {}", logs.text());
}

#[tokio::test]
async fn only_http2_means_that_a_server_without_it_is_an_error() {
    let authority = Authority::new("ours");
    for (offered, fine) in [(&["h2", "http/1.1"][..], true), (&["http/1.1"], false), (&[], false)] {
        let address = greeter(server(&authority.server(&["127.0.0.1"], VALID), offered, None)).await;
        let mut config = config(&format!("https://{address}"), authority.trusted());
        config.connections.http = HttpVersions::Http2Only;
        match dial(&config).await {
            Ok(dialed) => assert!(fine && dialed.http2),
            Err(error) => assert!(!fine && error.fault() == TransportFault::Tls, "{error:?}"),
        }
    }
}

#[tokio::test]
async fn without_tls_http2_is_used_only_if_http1_is_disabled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&format!("http://{}", listener.local_addr().unwrap()), Tls::default());
    assert!(!dial(&config).await.unwrap().http2);
    config.connections.http = HttpVersions::Http2Only;
    assert!(dial(&config).await.unwrap().http2);
    assert!(!dialer(&config).rotated(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_causes_a_handshake_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = config(&format!("https://{}", listener.local_addr().unwrap()), Authority::new("ours").trusted());
    let start = Instant::now();
    let error = dial(&config).await.unwrap_err();
    assert_eq!(error.fault(), TransportFault::ConnectTimeout);
    assert!(start.elapsed() >= config.connections.tls_timeout);
    assert!(start.elapsed() < config.connections.tls_timeout + Duration::from_secs(2));
}

#[tokio::test]
async fn a_server_that_closes_during_the_handshake_is_a_connect_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = config(&format!("https://{}", listener.local_addr().unwrap()), Authority::new("ours").trusted());
    let (error, ()) = tokio::join!(async { dial(&config).await.unwrap_err() }, async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 2048]).await;
    });
    assert_eq!(error.fault(), TransportFault::Connect);
}

#[tokio::test(start_paused = true)]
async fn sec_16_a_rotation_is_logged_once() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let folder = Folder::new();
    let ca = Pem::File(folder.write("ca", one.pem()));
    let dialer = dialer(&config("https://127.0.0.1:1", Tls { ca: Some(ca), ..Tls::default() }));
    assert!(!dialer.rotated(Instant::now()), "the first load is no rotation");
    folder.write("ca", two.pem());
    tokio::time::advance(Duration::from_secs(300)).await;
    assert!(!dialer.rotated(Instant::now()), "the file is only being looked at");
    while !dialer.rotated(Instant::now()) {
        tokio::task::yield_now().await;
    }
    assert!(!dialer.clone().rotated(Instant::now()), "reported once, to the first caller");
}

/// Returns the status line of the server's response.
async fn status(mut dialed: Dialed, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: kube\r\nConnection: close\r\n{header}\r\n");
    dialed.io.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = dialed.io.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_api_server_is_reached_with_a_certificate_and_with_a_token() {
    let api = ApiServer::builder().tls().start().await.unwrap();
    let ca = Pem::Data(api.ca_pem().unwrap().to_owned());
    let mut config = config(api.url(), Tls { ca: Some(ca), ..Tls::default() });
    assert!(dial(&config).await.unwrap().http2);
    config.connections.http = HttpVersions::Http1Only;
    let path = "/api/v1/namespaces";
    assert_eq!(status(dial(&config).await.unwrap(), path, "").await, "HTTP/1.1 401 Unauthorized");
    let token = format!("Authorization: Bearer {}\r\n", api.token().unwrap());
    assert_eq!(status(dial(&config).await.unwrap(), path, &token).await, "HTTP/1.1 200 OK");

    let kubeconfig = api.kubeconfig();
    let data = |field: &str| {
        use base64::Engine as _;
        let (_, rest) = kubeconfig.split_once(&format!("{field}: ")).unwrap();
        let text = rest.lines().next().unwrap().trim_matches(['"', '\'', ' ']);
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
    };
    let pair = super::pki::Pair { certificate: data("client-certificate-data"), key: data("client-key-data") };
    config.tls.identity = Some(pair.identity());
    assert_eq!(status(dial(&config).await.unwrap(), path, "").await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn chc_16_trn_014_a_watch_survives_a_rotation_and_calls_move_to_new_connections() {
    // client-go closes every connection when the client certificate has changed, watches included.
    let api = ApiServer::builder().tls().start().await.unwrap();
    let folder = Folder::new();
    let path = folder.write("ca", api.ca_pem().unwrap());
    let config = config(api.url(), Tls { ca: Some(Pem::File(path)), ..Tls::default() });
    let dialer = dialer(&config);
    let pool = Pool::new(&config.server, &config.connections, &config.limits, dialer.clone());
    let authorization = format!("Bearer {}", api.token().unwrap());
    let send = async |method: &str, path: &str, lane: Lane, body: &str| {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", &authorization)
            .header("content-type", "application/json")
            .extension(lane)
            .body(Body::full(body.to_owned()))
            .unwrap();
        pool.send(request).await.unwrap()
    };
    let namespaces = "/api/v1/namespaces";
    let mut watch = send("GET", &format!("{namespaces}?watch=1"), Lane::Streams, "").await;
    assert_eq!(send("GET", namespaces, Lane::Calls, "").await.status(), 200);
    assert_eq!(pool.stats().dials, 2);

    folder.write("ca", format!("{}{}", Authority::new("next").pem(), api.ca_pem().unwrap()));
    let later = Instant::now() + Duration::from_secs(300);
    while !dialer.rotated(later) {
        tokio::task::yield_now().await;
    }
    pool.retire();

    let marker = "made-after-the-rotation";
    let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{marker}"}}}}"#);
    assert_eq!(send("POST", namespaces, Lane::Calls, &body).await.status(), 201);
    assert_eq!(pool.stats().dials, 3, "the call went over a new connection");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(marker) {
        let frame = watch.body_mut().frame().await.expect("the watch goes on").unwrap();
        seen.extend_from_slice(&frame.into_data().unwrap());
    }
}
