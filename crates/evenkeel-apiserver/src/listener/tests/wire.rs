//! Tests over real sockets.

use std::net::SocketAddr;

use http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;
use crate::faults::{Action, Faults, Rule};
use crate::http_types::User;
use crate::listener::fake_handler::{FRAME, FRAMES};
use crate::listener::tls::{Identity, provider};
use crate::server::StartError;

pub(super) fn address(server: &ApiServer) -> SocketAddr {
    server.url().split("://").nth(1).unwrap().parse().unwrap()
}

/// Sends a request over a fresh connection and reads until the server closes it.
pub(super) async fn raw(server: &ApiServer, head: &str) -> String {
    let mut stream = TcpStream::connect(address(server)).await.unwrap();
    stream.write_all(head.replace('\n', "\r\n").as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A reset connection has no more bytes either.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

pub(super) fn body_of(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

async fn plain() -> ApiServer {
    start(ApiServer::builder()).await.0
}

#[tokio::test]
async fn arc_3_http1() {
    let server = plain().await;
    let response = raw(&server, "GET /readyz HTTP/1.1\nHost: localhost\nConnection: close\n\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("content-length: 2\r\n"), "{response}");
    assert_eq!(body_of(&response), "ok");
    server.shutdown().await;
}

pub(super) async fn http2<S>(stream: S) -> hyper::client::conn::http2::SendRequest<Full<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn arc_3_http2_by_prior_knowledge() {
    let server = plain().await;
    let mut sender = http2(TcpStream::connect(address(&server)).await.unwrap()).await;
    let uri = format!("{}/large", server.url());
    let response = sender.send_request(request(Method::GET, &uri, "")).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 300_002);
    server.faults().add(Rule::new(Action::Drop).times(1));
    let ready = format!("{}/readyz", server.url());
    assert!(sender.send_request(request(Method::GET, &ready, "")).await.is_err());
    let again = sender.send_request(request(Method::GET, &ready, "")).await.unwrap();
    assert_eq!(again.status(), StatusCode::OK, "only the stream was dropped");
    drop(sender);
    server.shutdown().await;
}

#[tokio::test]
async fn arc_3_long_responses_stream_over_both_protocols() {
    let server = plain().await;
    let response = raw(&server, "GET /frames HTTP/1.1\nHost: localhost\nConnection: close\n\n").await;
    let chunk_overhead = "10000\r\n\r\n".len();
    assert_eq!(body_of(&response).len(), FRAMES * (FRAME + chunk_overhead) + "0\r\n\r\n".len());
    let mut sender = http2(TcpStream::connect(address(&server)).await.unwrap()).await;
    let frames = request(Method::GET, &format!("{}/frames", server.url()), "");
    let response = sender.send_request(frames).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), FRAMES * FRAME);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flt_4_a_cut_resets_the_stream_of_http2() {
    let server = plain().await;
    create(&server, "a").await.unwrap();
    server.faults().cut_frame();
    let mut sender = http2(TcpStream::connect(address(&server)).await.unwrap()).await;
    let watch = request(Method::GET, &format!("{}{WATCH}", server.url()), "");
    let mut body = sender.send_request(watch).await.unwrap().into_body();
    let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(part, "{\"type\":\"A", "what came before the cut arrives");
    assert!(body.frame().await.unwrap().is_err());
    let ready = request(Method::GET, &format!("{}/readyz", server.url()), "");
    assert_eq!(sender.send_request(ready).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn arc_4_a_disconnected_client_frees_its_connection() {
    let server = plain().await;
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    let head = format!("GET {WATCH} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(server.connections().open, 1);
    drop(stream);
    while server.connections().open > 0 {
        tokio::task::yield_now().await;
    }
}

/// Sends a request over TLS with an optional client certificate.
async fn tls_whoami(
    server: &ApiServer,
    shown: Option<(&str, &str)>,
    token: Option<&str>,
) -> (String, StatusCode, String) {
    let pem = |text: &str| x509_parser::pem::parse_x509_pem(text.as_bytes()).unwrap().1.contents;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(pem(server.ca_pem().unwrap()))).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pem(key)));
            config.with_client_auth_cert(vec![pem(certificate).into()], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address(server)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let protocol = String::from_utf8(stream.get_ref().1.alpn_protocol().unwrap().to_vec()).unwrap();
    let mut sender = http2(stream).await;
    let mut request = request(Method::GET, &format!("{}/whoami", server.url()), "");
    if let Some(token) = token {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let response = sender.send_request(request).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (protocol, code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn aut_3_tls_with_client_certificates_and_tokens() {
    let server = start(
        ApiServer::builder().tls().tokens([("secret".to_owned(), User { name: "alice".into(), ..User::default() })]),
    )
    .await
    .0;
    let kubeconfig: serde_json::Value = serde_saphyr::from_str(&server.kubeconfig()).unwrap();
    assert!(kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    let decode = |field: &str| {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let text = kubeconfig["users"][0]["user"][field].as_str().unwrap();
        String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
    };
    let (certificate, key) = (decode("client-certificate-data"), decode("client-key-data"));
    let (protocol, code, who) = tls_whoami(&server, Some((&certificate, &key)), None).await;
    assert_eq!((protocol.as_str(), code), ("h2", StatusCode::OK));
    assert!(who.contains("system:admin") && who.contains("system:masters"), "{who}");

    let (_, code, who) = tls_whoami(&server, None, Some("secret")).await;
    assert!(code == StatusCode::OK && who.contains("alice"), "{who}");
    let (_, code, _) = tls_whoami(&server, None, None).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);

    let now = jiff::Timestamp::from_second(rustls::pki_types::UnixTime::now().as_secs() as i64).unwrap();
    let other = Identity::generate([127, 0, 0, 1].into(), &User::default(), now).unwrap();
    let shown = (other.admin_certificate_pem.as_str(), other.admin_key_pem.as_str());
    let (_, code, body) = tls_whoami(&server, Some(shown), None).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED, "{body}");
    server.shutdown().await;
}

#[tokio::test]
async fn aut_16_tls_with_certificates_of_another_authority() {
    let now = jiff::Timestamp::from_second(rustls::pki_types::UnixTime::now().as_secs() as i64).unwrap();
    let carol = User { name: "carol".into(), groups: vec!["dev".into()], ..User::default() };
    let other = Identity::generate([127, 0, 0, 1].into(), &carol, now).unwrap();
    let server = start(ApiServer::builder().tls().client_ca(&other.ca_pem).unwrap()).await.0;
    let shown = (other.admin_certificate_pem.as_str(), other.admin_key_pem.as_str());
    let (_, code, who) = tls_whoami(&server, Some(shown), None).await;
    assert!(code == StatusCode::OK && who.contains("carol") && who.contains("dev"), "{who}");
    server.shutdown().await;

    let refused = ApiServer::builder().client_ca(&other.ca_pem).unwrap().start().await.unwrap_err().to_string();
    assert!(refused.contains("does not use TLS"), "{refused}");
}

/// Returns the number of live tasks of this runtime.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn arc_4_no_task_survives_a_shutdown_or_a_drop() {
    let before = tasks();
    for polite in [true, false] {
        let server = plain().await;
        let at = address(&server);
        let mut watch = TcpStream::connect(at).await.unwrap();
        let head = format!("GET {WATCH} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        watch.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        watch.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        assert_eq!(server.connections().open, 1);
        if polite {
            server.shutdown().await;
        } else {
            drop(server);
        }
        // The client reads the end of its connection, which requires a closed socket.
        let mut rest = Vec::new();
        let _ = watch.read_to_end(&mut rest).await;
        while tasks() > before {
            tokio::task::yield_now().await;
        }
        assert!(TcpStream::connect(at).await.is_err(), "the port still accepts connections");
    }
    assert_eq!(tasks(), before);
}

#[tokio::test]
async fn arc_4_the_error_names_a_port_in_use() {
    let server = plain().await;
    let taken = address(&server);
    let error = ApiServer::builder().listen(taken).start().await.unwrap_err();
    assert!(matches!(error, StartError::AddressInUse { address } if address == taken));
    assert!(error.to_string().starts_with(&format!("{taken} is in use by another program")), "{error}");
}

#[tokio::test]
async fn sec_61_tokens_are_random_unless_given() {
    let (one, _) = start(ApiServer::builder().tls()).await;
    let (two, _) = start(ApiServer::builder().tls()).await;
    assert_ne!(one.token().unwrap(), two.token().unwrap());
    assert_eq!(one.token().unwrap().len(), 64);
    let (_, code, who) = tls_whoami(&one, None, one.token()).await;
    assert!(code == StatusCode::OK && who.contains("system:admin"), "{who}");
    let (_, code, _) = tls_whoami(&one, None, two.token()).await;
    assert_eq!(code, StatusCode::UNAUTHORIZED);
    let (given, _) = start(ApiServer::builder().tls().token("mine")).await;
    assert_eq!(given.token(), Some("mine"));
    assert!(!format!("{given:?} {:?}", ApiServer::builder().token("mine")).contains("mine"));
}

#[tokio::test]
async fn sec_60_no_listening_to_the_network_without_authentication() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = ApiServer::builder().listen(everywhere).start().await.unwrap_err();
    assert!(matches!(refused, StartError::OpenToTheNetwork { .. }));
    let known = ApiServer::builder().listen(everywhere).i_know_this_is_open().start().await.unwrap();
    assert!(known.url().starts_with("http://127.0.0.1:"));
    let named = "GET /readyz HTTP/1.1\nHost: apiserver.test\nConnection: close\n\n";
    assert!(raw(&known, named).await.starts_with("HTTP/1.1 200"), "reached by the name it has there");
    ApiServer::builder().listen(everywhere).token("t").start().await.unwrap();
}

#[tokio::test]
async fn sec_62_an_open_server_checks_the_host() {
    let server = plain().await;
    let response = raw(&server, "GET /readyz HTTP/1.1\nHost: evil.example\nConnection: close\n\n").await;
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    let (guarded, _) = start(ApiServer::builder().token("t")).await;
    let head = "GET /readyz HTTP/1.1\nHost: evil.example\nAuthorization: Bearer t\nConnection: close\n\n";
    assert!(raw(&guarded, head).await.starts_with("HTTP/1.1 200"));
    let head = "GET /version HTTP/1.1\nHost: localhost\nConnection: close\n\n";
    assert!(raw(&guarded, head).await.starts_with("HTTP/1.1 401"));
}

#[tokio::test]
async fn sec_62_the_fault_endpoint_is_off_by_default_and_has_its_own_token() {
    let off = plain().await;
    let head = "GET /evenkeel/faults HTTP/1.1\nHost: localhost\nConnection: close\n\n";
    assert!(raw(&off, head).await.starts_with("HTTP/1.1 404"));
    let (on, _) = start(ApiServer::builder().fault_endpoint(true).token("api")).await;
    assert!(raw(&on, head).await.starts_with("HTTP/1.1 401"));
    let with = |method: &str, path: &str, token: &str, body: &str| {
        format!(
            "{method} /evenkeel/faults{path} HTTP/1.1\nHost: localhost\nAuthorization: Bearer {token}\n\
             Content-Length: {}\nConnection: close\n\n{body}",
            body.len()
        )
    };
    assert!(raw(&on, &with("GET", "", "api", "")).await.starts_with("HTTP/1.1 401"));
    let token = on.fault_endpoint_token().unwrap().to_owned();
    let added = raw(&on, &with("POST", "", &token, "drop:verb=list")).await;
    assert_eq!(body_of(&added), "{\"ids\":[1]}", "{added}");
    assert_eq!(on.faults().report().len(), 1);
    let wrong = raw(&on, &with("POST", "", &token, "explode")).await;
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("rule 1: unknown fault"), "{wrong}");
    let shown = raw(&on, &with("GET", "", &token, "")).await;
    assert_eq!(body_of(&shown), "{\"counts\":{},\"rules\":[{\"action\":\"drop\",\"fired\":0,\"id\":1,\"matched\":0}]}");
    assert!(raw(&on, &with("DELETE", "/1", &token, "")).await.starts_with("HTTP/1.1 200"));
    assert!(raw(&on, &with("DELETE", "/1", &token, "")).await.starts_with("HTTP/1.1 404"));
    assert!(on.faults().report().is_empty());
    for _ in 0..1000 {
        on.faults().add(Rule::new(Action::Drop));
    }
    let more = raw(&on, &with("POST", "", &token, "drop:verb=list")).await;
    assert!(more.starts_with("HTTP/1.1 400") && more.contains("more than 1000 rules"), "{more}");
    assert_eq!(on.faults().report().len(), 1000);
}

#[tokio::test]
async fn sec_65_connections_are_limited_and_silent_ones_closed() {
    let (server, _) = start(ApiServer::builder().max_connections(1)).await;
    let mut watching = TcpStream::connect(address(&server)).await.unwrap();
    watching.write_all(format!("GET {WATCH} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    watching.read_exact(&mut [0; 15]).await.unwrap();
    let mut second = TcpStream::connect(address(&server)).await.unwrap();
    let mut nothing = Vec::new();
    let _ = second.read_to_end(&mut nothing).await;
    assert_eq!(server.connections().rejected, 1, "no connection in use makes room");
    drop(watching);
    while server.connections().open > 0 {
        tokio::task::yield_now().await;
    }
    let mut silent = TcpStream::connect(address(&server)).await.unwrap();
    // With the clock paused, time advances to the next timer when all tasks are idle.
    tokio::time::pause();
    let _ = silent.read_to_end(&mut nothing).await;
    tokio::time::resume();
    assert!(nothing.is_empty());
}

#[tokio::test]
async fn sec_65_heads_are_limited() {
    let server = plain().await;
    let head = format!("GET /readyz HTTP/1.1\nHost: localhost\nLong: {}\n\n", "x".repeat(300 * 1024));
    let response = raw(&server, &head).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn neg_8_large_responses_are_compressed_on_the_wire() {
    let server = plain().await;
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    let head = "GET /large HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let headers = String::from_utf8(response[..end].to_vec()).unwrap();
    assert!(headers.contains("content-encoding: gzip\r\n"), "{headers}");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&response[end..]), &mut text).unwrap();
    assert_eq!(text.len(), 300_002);
}

const LIST: &str = "GET /api/v1/namespaces/default/configmaps HTTP/1.1\nHost: localhost\nConnection: close\n\n";

#[tokio::test]
async fn flt_2_connections_are_accepted_again_on_the_same_port() {
    let server = plain().await;
    let at = address(&server);
    server.faults().refuse_connections(true);
    // The listener is notified at once, but acts when its task is polled.
    while TcpStream::connect(at).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = TcpStream::connect(at).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    server.faults().refuse_connections(false);
    while TcpStream::connect(at).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(raw(&server, LIST).await.starts_with("HTTP/1.1 200"));
    server.faults().add(Rule::new(Action::Refuse));
    assert_eq!(raw(&server, LIST).await, "");
    while TcpStream::connect(at).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.faults().counts()["refuse"], 2);
}

#[tokio::test]
async fn flt_2_cut_connections_break_open_ones() {
    let server = plain().await;
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    server.faults().cut_connections();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(raw(&server, LIST).await.starts_with("HTTP/1.1 200"), "new ones are welcome");
}

#[tokio::test]
async fn flt_7_request_faults_on_the_wire() {
    let server = plain().await;
    for (spec, expected) in [
        ("drop", ""),
        ("commit-then-drop", ""),
        ("drop-before-commit", ""),
        ("reset:bytes=4", "HTTP/1.1 200 OK|4\r\n\"xxx\r\n"),
        (
            "status:code=503,retry-after=2,message=down",
            "HTTP/1.1 503 Service Unavailable|{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
             \"status\":\"Failure\",\"message\":\"down\",\"reason\":\"ServiceUnavailable\",\
             \"details\":{\"retryAfterSeconds\":2},\"code\":503}",
        ),
    ] {
        server.faults().clear();
        server.faults().add(Faults::parse(spec).unwrap());
        let response = raw(&server, "GET /large HTTP/1.1\nHost: localhost\nConnection: close\n\n").await;
        let seen = match response.split_once("\r\n") {
            None => String::new(),
            Some((line, _)) => format!("{line}|{}", body_of(&response)),
        };
        assert_eq!(seen, expected, "{spec}");
    }
    server.faults().clear();
    server.faults().add(Rule::new(Action::Hang));
    let mut hung = std::pin::pin!(raw(&server, LIST));
    while !server.faults().counts().contains_key("hang") {
        tokio::select! {
            biased;
            response = &mut hung => panic!("unexpected response: {response:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(server.connections().open, 1, "the connection stays open");
}

fn chunk(text: &str) -> String {
    format!("{:X}\r\n{text}\r\n", text.len())
}

/// Checks the bytes of a watch of two objects on the wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flt_7_watch_faults_on_the_wire() {
    let server = plain().await;
    for name in ["a", "b"] {
        create(&server, name).await.unwrap();
    }
    let event = |name: &str, revision: u64| {
        format!(
            "{{\"type\":\"ADDED\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":\
             {{\"name\":\"{name}\",\"namespace\":\"default\",\"resourceVersion\":\"{revision}\"}}}}}}\n"
        )
    };
    let (a, b) = (event("a", 1), event("b", 2));
    let (whole_a, whole_b, end) = (chunk(&a), chunk(&b), "0\r\n\r\n");
    let corrupt = chunk(&format!("{}\u{1}{}", &a[..10], &a[11..]));
    let surprise = |kind: &str| {
        chunk(&format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"Surprise\",\"apiVersion\":\"faults.evenkeel.dev/v1\",\
             \"metadata\":{{\"name\":\"surprise\"}}}}}}\n"
        ))
    };
    let expired = chunk(
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\
         \"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\"code\":410}}\n",
    );
    let split: String = [&a[..7], &a[7..]].into_iter().chain([&b[..7], &b[7..]]).map(chunk).collect();
    for (spec, expected) in [
        ("drop-watch:events=1", format!("{whole_a}{end}")),
        ("drop-watch-bytes:bytes=3", format!("{}{end}", chunk(&a[..3]))),
        ("cut-frame:event=1,byte=7", format!("{whole_a}{}", chunk(&b[..7]))),
        ("truncate-frame:event=1,byte=7", format!("{whole_a}{}{end}", chunk(&b[..7]))),
        ("corrupt-frame:byte=10", format!("{corrupt}{whole_b}{end}")),
        ("split-frames:sizes=7/1000", format!("{split}{end}")),
        ("coalesce-frames:events=2", format!("{}{end}", chunk(&format!("{a}{b}")))),
        ("duplicate-event", format!("{whole_a}{whole_a}{end}")),
        ("skip-event", format!("{whole_b}{end}")),
        ("reorder-events", format!("{whole_b}{whole_a}{end}")),
        ("expire:event=1", format!("{whole_a}{expired}{end}")),
        (
            "error-event:code=500,reason=Odd,message=boom",
            format!(
                "{}{end}",
                chunk(
                    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
                     \"status\":\"Failure\",\"message\":\"boom\",\"reason\":\"Odd\",\"code\":500}}\n"
                )
            ),
        ),
        ("no-bookmarks", format!("{whole_a}{whole_b}{end}")),
        ("stall:ms=1,event=1", format!("{whole_a}{whole_b}{end}")),
        ("unknown-event", format!("{}{whole_a}{end}", surprise("SURPRISE"))),
        ("wrong-kind", format!("{}{whole_a}{end}", surprise("ADDED"))),
    ] {
        server.faults().clear();
        server.faults().add(Faults::parse(spec).unwrap());
        // The stream must end for the test to end. A fault after another one counts the pieces that the first one
        // makes.
        let pieces = match spec.split(':').next() {
            Some("coalesce-frames" | "skip-event") => 1,
            Some("split-frames") => 4,
            Some("cut-frame" | "truncate-frame") => 9,
            _ => 2,
        };
        server.faults().add(Faults::parse(&format!("drop-watch:events={pieces}")).unwrap());
        let response = raw(&server, &format!("GET {WATCH} HTTP/1.1\nHost: localhost\nConnection: close\n\n")).await;
        assert_eq!(body_of(&response), expected, "{spec}");
    }
    server.faults().clear();
    server.faults().add(Faults::parse("expire:as=http").unwrap());
    let response = raw(&server, &format!("GET {WATCH} HTTP/1.1\nHost: localhost\nConnection: close\n\n")).await;
    assert!(response.starts_with("HTTP/1.1 410 Gone"), "{response}");
    server.faults().clear();
    server.faults().add(Faults::parse("bookmarks-only").unwrap());
    let mut silent = get(&server, WATCH).await.unwrap().into_body();
    server.shutdown().await;
    assert_eq!(frame(&mut silent).await, None, "no event was let through");
}
