//! Proxies that tunnel, refuse and send invalid responses.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::{Config, Connections, HttpVersions, Proxy, ProxyUrl, ServerUrl, Tls};
use crate::tls::tests::logs::Logs;
use crate::tls::tests::pki::{Authority, VALID, server};
use crate::tls::{Dialer, for_proxies};
use crate::transport::connect::{BoxIo, Dial as _, Io};
use crate::transport::{Lane, TransportError, TransportFault};

/// The bytes that proxies and servers have received.
type Heard = Arc<Mutex<Vec<u8>>>;

fn heard(heard: &Heard) -> String {
    String::from_utf8_lossy(&heard.lock().unwrap()).into_owned()
}

/// Listens, and runs this for every connection.
async fn listen<F: Future<Output = ()> + Send>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            serve(socket).await;
        }
    });
    address
}

/// A server that sends a greeting and records the line it receives.
async fn target(said: &Heard) -> SocketAddr {
    let said = Arc::clone(said);
    listen(move |mut socket| {
        let said = Arc::clone(&said);
        async move {
            socket.write_all(b"hello").await.unwrap();
            let mut line = Vec::new();
            let _ = socket.read_to_end(&mut line).await;
            said.lock().unwrap().extend(line);
        }
    })
    .await
}

/// A proxy that records the request, sends this response, and tunnels to the target if it is a 200.
async fn tunnel(mut io: impl Io, answer: String, asked: Heard) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.unwrap());
    }
    let text = String::from_utf8(head.clone()).unwrap();
    asked.lock().unwrap().extend(head);
    io.write_all(answer.as_bytes()).await.unwrap();
    if answer.contains(" 200 ") {
        let mut to = TcpStream::connect(text.split(' ').nth(1).unwrap()).await.unwrap();
        let _ = copy_bidirectional(&mut io, &mut to).await;
    }
}

async fn http_proxy(answer: &str, asked: &Heard) -> SocketAddr {
    let (answer, asked) = (answer.to_owned(), Arc::clone(asked));
    listen(move |socket| tunnel(socket, answer.clone(), Arc::clone(&asked))).await
}

/// A SOCKS proxy that requires this name and password, accepts names only, and replies with this code.
async fn socks_proxy(login: Option<&'static [u8]>, code: u8, asked: &Heard) -> SocketAddr {
    let asked = Arc::clone(asked);
    listen(move |mut io| {
        let asked = Arc::clone(&asked);
        async move {
            let mut greeting = vec![0; 2];
            io.read_exact(&mut greeting).await.unwrap();
            let mut methods = vec![0; usize::from(greeting[1])];
            io.read_exact(&mut methods).await.unwrap();
            let method = if login.is_some() { 2 } else { 0 };
            if !methods.contains(&method) {
                return io.write_all(&[5, 0xff]).await.unwrap();
            }
            io.write_all(&[5, method]).await.unwrap();
            if let Some(expected) = login {
                let mut given = vec![0; expected.len()];
                io.read_exact(&mut given).await.unwrap();
                io.write_all(&[1, u8::from(given != expected)]).await.unwrap();
            }
            let mut request = [0; 5];
            if io.read_exact(&mut request).await.is_err() {
                return;
            }
            assert_eq!(request[..4], [5, 1, 0, 3]);
            let mut rest = vec![0; usize::from(request[4]) + 2];
            io.read_exact(&mut rest).await.unwrap();
            let (name, port) = rest.split_at(rest.len() - 2);
            asked.lock().unwrap().extend(name);
            io.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            if code == 0 {
                // Only this proxy resolves "kube.test".
                let port = u16::from_be_bytes([port[0], port[1]]);
                let mut to = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = copy_bidirectional(&mut io, &mut to).await;
            }
        }
    })
    .await
}

fn url(text: &str) -> ServerUrl {
    ServerUrl::parse(text).unwrap()
}

fn route(server: &str, proxy: &str) -> Route {
    let proxy = Proxy::Url(ProxyUrl::parse(proxy).unwrap());
    Route::new(&url(server), &proxy, &Connections::default(), &Tls::default(), &ProxyEnvironment::default()).unwrap()
}

async fn failure(route: &Route) -> TransportError {
    match route.connect().await {
        Ok(_) => panic!("a connection"),
        Err(error) => error,
    }
}

fn proxy_error(error: &TransportError) -> &ProxyError {
    assert_eq!(error.fault(), TransportFault::Proxy);
    error.source().unwrap().downcast_ref().unwrap()
}

async fn hello(io: &mut BoxIo) -> String {
    let mut hello = [0; 5];
    io.read_exact(&mut hello).await.unwrap();
    String::from_utf8(hello.to_vec()).unwrap()
}

#[tokio::test]
async fn sec_52_a_tunnel_reaches_the_server_and_only_the_proxy_gets_its_credentials() {
    let (asked, said) = (Heard::default(), Heard::default());
    let target = target(&said).await;
    let proxy = http_proxy("HTTP/1.1 200 fine\r\nVia: x\r\n\r\n", &asked).await;
    let mut io = route(&format!("http://{target}"), &format!("http://user:canary@{proxy}")).connect().await.unwrap();
    assert_eq!(hello(&mut io).await, "hello");
    io.write_all(b"GET / HTTP/1.1").await.unwrap();
    io.shutdown().await.unwrap();
    let _ = io.read(&mut [0; 1]).await;
    assert_eq!(
        heard(&asked),
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic dXNlcjpjYW5hcnk=\r\n\r\n")
    );
    assert_eq!(heard(&said), "GET / HTTP/1.1", "the server does not see the proxy");
}

#[tokio::test]
async fn early_bytes_of_the_server_are_not_lost() {
    let asked = Heard::default();
    let proxy = http_proxy("HTTP/1.0 299 \r\n\r\nearly", &asked).await;
    let mut io = route("http://kube.test", &format!("http://{proxy}")).connect().await.unwrap();
    assert_eq!(hello(&mut io).await, "early");
    assert_eq!(io.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(heard(&asked), "CONNECT kube.test:80 HTTP/1.1\r\nHost: kube.test:80\r\n\r\n");
}

#[tokio::test]
async fn sec_52_a_refusal_has_its_status_and_no_credentials() {
    let asked = Heard::default();
    let proxy = http_proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\ncanary", &asked).await;
    let logs = Logs::default();
    let _guard = crate::test_logs::listen(logs.clone());
    let route = route("https://kube.test:6443", &format!("http://user:canary@{proxy}"));
    let error = failure(&route).await;
    assert!(
        matches!(proxy_error(&error), ProxyError::Status { status: 407, proxy: name } if *name == proxy.to_string())
    );
    assert_eq!(error.host(), "kube.test");
    let shown = format!("{error} {error:?} {} {route:?} {}", error.source().unwrap(), logs.text());
    for secret in ["canary", "user", "dXNlcjpjYW5hcnk="] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn a_response_that_is_too_long_or_no_http_is_rejected() {
    for answer in [format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(16 << 10)), "SSH-2.0-hello\r\n".into()] {
        let asked = Heard::default();
        let proxy = http_proxy(&answer.replace(" 200 ", " 201 "), &asked).await;
        let error = failure(&route("https://kube.test", &format!("http://{proxy}"))).await;
        assert!(matches!(proxy_error(&error), ProxyError::Nonsense { protocol: "HTTP", .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_closes_and_an_unreachable_one_are_distinct_errors() {
    let hangs_up = listen(|mut socket| async move {
        let _ = socket.read(&mut [0; 1024]).await;
    })
    .await;
    for scheme in ["http", "socks5"] {
        let error = failure(&route("https://kube.test", &format!("{scheme}://{hangs_up}"))).await;
        assert!(matches!(proxy_error(&error), ProxyError::Io { .. }), "{error:?}");
    }
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = failure(&route("https://kube.test", &format!("http://{refused}"))).await;
    assert_eq!(error.fault(), TransportFault::Refused);
    assert_eq!(error.host(), refused.to_string(), "it is the proxy that refused");
}

#[tokio::test(start_paused = true)]
async fn a_silent_proxy_times_out() {
    for scheme in ["http", "https", "socks5"] {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let start = Instant::now();
        let error = failure(&route("https://kube.test", &format!("{scheme}://{}", silent.local_addr().unwrap()))).await;
        assert_eq!((error.fault(), error.host()), (TransportFault::ConnectTimeout, "kube.test"), "{scheme}");
        assert_eq!(start.elapsed().as_secs(), Connections::default().connect_timeout.as_secs());
    }
}

#[tokio::test]
async fn rcm_017_an_https_proxy_uses_tls_and_must_be_trusted() {
    let (asked, said) = (Heard::default(), Heard::default());
    let target = target(&said).await;
    let authority = Authority::new("proxies");
    let acceptor = TlsAcceptor::from(server(&authority.server(&["127.0.0.1"], VALID), &["http/1.1"], None));
    let told_proxy = Arc::clone(&asked);
    let proxy = listen(move |socket| {
        let (acceptor, asked) = (acceptor.clone(), Arc::clone(&told_proxy));
        async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            tunnel(stream, "HTTP/1.1 200 OK\r\n\r\n".into(), asked).await;
        }
    })
    .await;
    let (server, proxy) = (format!("http://{target}"), format!("https://u:p@{proxy}"));
    let error = failure(&route(&server, &proxy)).await;
    assert_eq!((error.fault(), error.host()), (TransportFault::Tls, "127.0.0.1"), "the system does not know it");

    let trust = trusting(&authority);
    let route = Route::through(&url(&server), ProxyUrl::parse(&proxy).unwrap(), &Connections::default(), trust);
    assert_eq!(hello(&mut route.connect().await.unwrap()).await, "hello");
    assert!(heard(&asked).contains("Proxy-Authorization: Basic dTpw\r\n"));
}

fn trusting(authority: &Authority) -> Arc<ClientConfig> {
    crate::tls::tests::pki::client(&authority.trusted(), HttpVersions::Http1Only)
}

#[test]
fn for_an_https_proxy_only_http_1_is_offered() {
    assert_eq!(for_proxies(&Tls::default()).unwrap().alpn_protocols, [b"http/1.1"]);
}

#[tokio::test]
async fn trn_020_socks5_proxies_resolve_names_themselves() {
    let (asked, said) = (Heard::default(), Heard::default());
    let port = target(&said).await.port();
    let proxy = socks_proxy(None, 0, &asked).await;
    let route = route(&format!("http://kube.test:{port}"), &format!("socks5://{proxy}"));
    assert_eq!(hello(&mut route.connect().await.unwrap()).await, "hello");
    assert_eq!(heard(&asked), "kube.test");
}

#[tokio::test]
async fn sec_52_only_the_socks5_proxy_gets_its_credentials() {
    let (asked, said) = (Heard::default(), Heard::default());
    let port = target(&said).await.port();
    let proxy = socks_proxy(Some(b"\x01\x04user\x06canary"), 0, &asked).await;
    let server = format!("http://kube.test:{port}");
    let with_password = route(&server, &format!("socks5://user:canary@{proxy}"));
    assert_eq!(hello(&mut with_password.connect().await.unwrap()).await, "hello");
    for url in [format!("socks5://user:canari@{proxy}"), format!("socks5://{proxy}")] {
        let route = route(&server, &url);
        let error = failure(&route).await;
        assert!(matches!(proxy_error(&error), ProxyError::Credentials { .. }), "{error:?}");
        let shown = format!("{error} {error:?} {} {route:?}", error.source().unwrap());
        assert!(!shown.contains("canar") && !shown.contains("user"), "{shown}");
    }
}

#[tokio::test]
async fn a_socks5_error_contains_the_reason_of_the_proxy() {
    let proxy = socks_proxy(None, 5, &Heard::default()).await;
    let error = failure(&route("https://kube.test", &format!("socks5://{proxy}"))).await;
    assert!(matches!(proxy_error(&error), ProxyError::Socks { code: 5, .. }));
    assert!(error.source().unwrap().to_string().contains("connection refused"));
}

#[tokio::test]
async fn sec_52_tls_is_end_to_end_through_the_tunnel() {
    let asked = Heard::default();
    let authority = Authority::new("ours");
    let acceptor = TlsAcceptor::from(server(&authority.server(&["127.0.0.1"], VALID), &["h2"], None));
    let target = listen(move |socket| {
        let acceptor = acceptor.clone();
        async move {
            let _ = acceptor.accept(socket).await.unwrap().write_all(b"hello").await;
        }
    })
    .await;
    let proxy = http_proxy("HTTP/1.1 200 OK\r\n\r\n", &asked).await;
    let mut config = Config::new(url(&format!("https://{target}")));
    config.tls = Tls { server_name: None, ..authority.trusted() };
    config.proxy = Proxy::Url(ProxyUrl::parse(&format!("http://{proxy}")).unwrap());
    let dialer = Dialer::new(&config, &ProxyEnvironment::default(), None, Instant::now()).unwrap();
    let mut dialed = dialer.dial(Lane::Streams).await.unwrap();
    assert!(dialed.http2);
    assert_eq!(hello(&mut dialed.io).await, "hello");
    assert!(heard(&asked).starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")));
}

#[test]
fn a_user_name_for_an_http_proxy_has_no_colon() {
    let mut proxy = ProxyUrl::parse("http://u:p@proxy").unwrap();
    proxy.credentials = Some(("u:v".into(), "canary".into()));
    let error = Route::new(
        &url("https://kube.test"),
        &Proxy::Url(proxy),
        &Connections::default(),
        &Tls::default(),
        &ProxyEnvironment::default(),
    );
    assert!(!format!("{:?}", error.unwrap_err()).contains("canary"));
}
