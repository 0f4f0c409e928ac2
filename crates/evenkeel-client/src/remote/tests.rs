use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use evenkeel_base::channels::{
    ChannelError, ChannelProtocol, ERROR, HandshakeError, RESIZE, Role, STDERR, STDIN, STDOUT, ServerHandshake,
    Session, SessionSettings, UpgradedIo,
};
use evenkeel_core::{ExitStatus, ExitStatusError, TerminalSize};
use http::header::{CONTENT_TYPE, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderValue, Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;

use super::{CopyError, CopyReport, SessionError};
use crate::client::Client;
use crate::error::Error;
use crate::transport::Body;

/// A server that upgrades one connection.
#[derive(Clone)]
struct Upgrading {
    protocols: &'static [&'static str],
    change: fn(&mut Response<Body>),
    connection: Arc<Mutex<Option<oneshot::Sender<DuplexStream>>>>,
    path: Arc<Mutex<String>>,
    requests: Arc<AtomicUsize>,
}

impl tower_service::Service<Request<Body>> for Upgrading {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Ready<Result<Response<Body>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.requests.fetch_add(1, Ordering::Relaxed);
        *self.path.lock().unwrap() = request.uri().to_string();
        let mut response = Response::new(Body::empty());
        let handshake = ServerHandshake::accept(request.headers(), self.protocols).unwrap();
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = handshake.headers;
        let (server, client) = duplex(64 * 1024);
        response.extensions_mut().insert(UpgradedIo::new(client));
        (self.change)(&mut response);
        if let Some(connection) = self.connection.lock().unwrap().take() {
            let _ = connection.send(server);
        }
        ready(Ok(response))
    }
}

struct Fixture {
    client: Client,
    connection: oneshot::Receiver<DuplexStream>,
    path: Arc<Mutex<String>>,
    requests: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(protocols: &'static [&'static str], change: fn(&mut Response<Body>)) -> Self {
        let (sender, connection) = oneshot::channel();
        let (path, requests) = (Arc::default(), Arc::default());
        let connection_of = Arc::new(Mutex::new(Some(sender)));
        let service = Upgrading {
            protocols,
            change,
            connection: connection_of,
            path: Arc::clone(&path),
            requests: Arc::clone(&requests),
        };
        Fixture { client: Client::from_service(service), connection, path, requests }
    }

    fn exec(&self) -> super::Exec {
        self.client.core_v1().pods("default").exec("web-0", ["cat", "-"])
    }

    /// Returns the server's side of the session.
    async fn server(self, protocol: ChannelProtocol) -> Session {
        let settings = SessionSettings {
            role: Role::Server,
            protocol,
            inbound: vec![STDIN, RESIZE],
            outbound: vec![STDOUT, STDERR, ERROR],
        };
        let (session, driver) = Session::new(self.connection.await.unwrap(), &settings);
        tokio::spawn(driver);
        session
    }
}

const BOTH: &[&str] = &ChannelProtocol::NAMES;

fn unchanged(_: &mut Response<Body>) {}

async fn write(session: &Session, channel: u8, text: &[u8]) {
    session.writer(channel).write_all(text).await.unwrap();
}

fn exit(code: u8) -> Vec<u8> {
    serde_json::to_vec(&ExitStatus::exited(code).to_status()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rcm_001_the_request_has_the_command_and_the_streams() {
    let fixture = Fixture::new(BOTH, unchanged);
    let process = fixture.exec().container("app").stdin().await.unwrap();
    assert_eq!(
        *fixture.path.lock().unwrap(),
        "/api/v1/namespaces/default/pods/web-0/exec?command=cat&command=-&container=app&stderr=true&stdin=true&stdout=true"
    );
    assert!(process.stdin.is_some() && process.stdout.is_some() && process.stderr.is_some());
}

#[tokio::test(start_paused = true)]
async fn rcm_002_a_terminal_has_no_standard_error_but_sizes() {
    let fixture = Fixture::new(BOTH, unchanged);
    let process = fixture.exec().terminal_size(TerminalSize { width: 80, height: 24 }).await.unwrap();
    assert!(process.stdin.is_none() && process.stdout.is_some() && process.stderr.is_none());
    assert!(fixture.path.lock().unwrap().ends_with("stdout=true&tty=true"));
    let server = fixture.server(ChannelProtocol::V5).await;
    let mut sizes = server.reader(RESIZE);
    assert_eq!(sizes.next().await.unwrap().unwrap(), "{\"Width\":80,\"Height\":24}\n");
}

#[tokio::test(start_paused = true)]
async fn rcm_010_a_server_without_v5_gets_v4_which_cannot_close_stdin() {
    let fixture = Fixture::new(&["v4.channel.k8s.io"], unchanged);
    let mut process = fixture.exec().stdin().await.unwrap();
    let server = fixture.server(ChannelProtocol::V4).await;
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"data").await.unwrap();
    assert_eq!(server.reader(STDIN).next().await.unwrap().unwrap(), "data");
    assert_eq!(stdin.shutdown().await.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    write(&server, ERROR, &exit(0)).await;
    server.close();
    assert!(process.wait().await.unwrap().success());
}

#[tokio::test(start_paused = true)]
async fn chc_24_the_exit_code_follows_all_output() {
    let fixture = Fixture::new(BOTH, unchanged);
    let mut process = fixture.exec().await.unwrap();
    let server = fixture.server(ChannelProtocol::V5).await;
    // Servers copy the channels concurrently: the status may overtake output.
    write(&server, ERROR, &exit(3)).await;
    write(&server, STDOUT, b"out").await;
    write(&server, STDERR, b"err").await;
    server.close();
    let (mut out, mut err) = (String::new(), String::new());
    process.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
    process.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
    assert_eq!((out.as_str(), err.as_str(), process.wait().await.unwrap().code()), ("out", "err", 3));
    // The status is kept.
    assert_eq!(process.wait().await.unwrap().code(), 3);
}

#[tokio::test(start_paused = true)]
async fn chc_24_a_connection_that_is_lost_before_the_status_is_an_error() {
    let fixture = Fixture::new(BOTH, unchanged);
    let mut process = fixture.exec().await.unwrap();
    drop(fixture.connection);
    let lost = process.wait().await.unwrap_err();
    assert!(
        matches!(&lost, Error::Session { source: SessionError::Channel(error), .. } if matches!(**error, ChannelError::Lost(_))),
        "{lost:?}"
    );
    assert_eq!(lost.to_string(), "GET /api/v1/namespaces/default/pods/web-0/exec: the connection was lost");
}

#[tokio::test(start_paused = true)]
async fn rcm_003_an_end_without_a_status_and_a_failure_are_errors() {
    let fixture = Fixture::new(BOTH, unchanged);
    let mut process = fixture.exec().await.unwrap();
    let server = fixture.server(ChannelProtocol::V5).await;
    server.close();
    let missing = process.wait().await.unwrap_err();
    assert!(matches!(missing, Error::Session { source: SessionError::NoStatus, .. }), "{missing:?}");

    let fixture = Fixture::new(BOTH, unchanged);
    let mut process = fixture.exec().await.unwrap();
    let server = fixture.server(ChannelProtocol::V5).await;
    write(&server, ERROR, br#"{"status":"Failure","reason":"InternalError","message":"no such container"}"#).await;
    server.close();
    let failed = process.wait().await.unwrap_err();
    assert!(matches!(
        &failed,
        Error::Session { source: SessionError::Process(ExitStatusError::Failed(status)), .. } if status.message == "no such container"
    ));
}

#[tokio::test(start_paused = true)]
async fn rcm_016_and_rcm_031_a_refusal_is_the_servers_status_and_is_not_repeated() {
    let fixture = Fixture::new(BOTH, |response| {
        *response.status_mut() = StatusCode::FORBIDDEN;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *response.body_mut() = Body::full(
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no exec","reason":"Forbidden","code":403}"#,
        );
    });
    let refused = fixture.exec().await.unwrap_err();
    assert!(refused.is_forbidden(), "{refused:?}");
    // rcm_031: no other protocol would change what the server allows.
    assert_eq!(fixture.requests.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn rcm_016_a_refusal_without_a_status_has_its_text() {
    let fixture = Fixture::new(BOTH, |response| {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        *response.body_mut() = Body::full("the node does not respond");
    });
    let refused = fixture.exec().await.unwrap_err();
    assert!(refused.is_unexpected_server_error(), "{refused:?}");
    assert_eq!(refused.status().unwrap().code, 502);
    assert!(refused.to_string().contains("the node does not respond"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn rcm_016_an_upgrade_to_something_else_is_an_error() {
    async fn error(change: fn(&mut Response<Body>)) -> SessionError {
        match Fixture::new(BOTH, change).exec().await {
            Err(Error::Session { source, .. }) => source,
            other => panic!("{other:?}"),
        }
    }
    let code = error(|response| *response.status_mut() = StatusCode::OK).await;
    assert!(matches!(code, SessionError::NotUpgraded { code: StatusCode::OK }), "{code:?}");
    let protocol = error(|response| {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v1.channel.k8s.io"));
    });
    assert!(matches!(protocol.await, SessionError::Handshake(HandshakeError::Subprotocol { .. })));
    let connection = error(|response| response.extensions_mut().clear()).await;
    assert!(matches!(connection, SessionError::NoConnection), "{connection:?}");
}

#[tokio::test(start_paused = true)]
async fn rcm_007_dropping_the_process_closes_the_connection() {
    let fixture = Fixture::new(BOTH, unchanged);
    let mut process = fixture.exec().stdin().await.unwrap();
    let server = fixture.server(ChannelProtocol::V5).await;
    let mut stdout = process.stdout.take().unwrap();
    drop(process);
    server.ended().await.unwrap();
    assert_eq!(stdout.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}

/// Copies a file over v4. The server reads one record of tar, which the end of the archive fills, and then exits or waits.
async fn copy_over_v4(exit_code: Option<u8>) -> Result<CopyReport, Error> {
    let source = tempfile::NamedTempFile::new().unwrap();
    let fixture = Fixture::new(&["v4.channel.k8s.io"], unchanged);
    let copying = fixture.client.core_v1().pods("default").copy_to("web-0", source.path(), "/tmp/copy").into_future();
    let path = Arc::clone(&fixture.path);
    let serving = async {
        let session = fixture.server(ChannelProtocol::V4).await;
        let mut record = [0; 10_240];
        session.reader(STDIN).read_exact(&mut record).await.unwrap();
        assert!(record.starts_with(b"copy") && record.ends_with(&[0; 1024]));
        if let Some(code) = exit_code {
            write(&session, ERROR, &exit(code)).await;
            session.close();
        }
        session
    };
    let (copied, _session) = tokio::join!(copying, serving);
    assert!(path.lock().unwrap().contains("exec?command=tar&command=-xof&command=-&command=-C&command=%2Ftmp&"));
    copied
}

#[tokio::test]
async fn rcm_012_a_copy_without_half_close_ends_with_the_exit_code_of_tar() {
    assert_eq!(copy_over_v4(Some(0)).await.unwrap().files, 1);
    let error = copy_over_v4(Some(2)).await.unwrap_err();
    assert!(matches!(error, Error::Session { source: SessionError::Copy(CopyError::Exit { code: 2, .. }), .. }));
}

#[tokio::test(start_paused = true)]
async fn rcm_012_a_copy_without_half_close_fails_if_tar_does_not_end() {
    let error = copy_over_v4(None).await.unwrap_err();
    assert!(
        matches!(error, Error::Session { source: SessionError::Copy(CopyError::NoHalfClose { .. }), .. }),
        "{error:?}"
    );
}
