//! The pool against real and in-memory servers.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

use super::super::connect::{Dial, Dialed, Dialing, tcp_connect};
use super::super::error::{TransportError, TransportFault};
use super::super::{Body, BoxError, Lane};
use super::Pool;
use crate::config::{Connections, HttpVersions, Limits, ServerUrl};

mod faults;
mod http1;
mod http2;
mod runtimes;

/// A scripted dialer.
struct FakeDial<F>(F);

impl<F, R> Dial for FakeDial<F>
where
    F: Fn(Lane) -> R + Send + Sync,
    R: Future<Output = Result<Dialed, TransportError>> + Send + 'static,
{
    fn dial(&self, lane: Lane) -> Dialing {
        Box::pin((self.0)(lane))
    }
}

/// Returns a pool whose connections lead to a server in memory; `serve` gets the other end of each.
fn in_memory<F>(connections: &Connections, http2: bool, serve: F) -> Pool
where
    F: Fn(DuplexStream) + Send + Sync + 'static,
{
    let serve = Arc::new(serve);
    let dial = FakeDial(move |_| {
        let serve = Arc::clone(&serve);
        async move {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            serve(theirs);
            Ok(Dialed { io: Box::new(ours), http2 })
        }
    });
    Pool::new(&ServerUrl::parse("http://server").unwrap(), connections, &Limits::default(), dial)
}

/// A pool of plain TCP connections.
fn over_tcp(address: SocketAddr, connections: &Connections) -> Pool {
    let server = ServerUrl::parse(&format!("http://{address}")).unwrap();
    let (host, port, settings) = (server.host().to_owned(), server.port(), connections.clone());
    let dial = FakeDial(move |_| {
        let (host, settings) = (host.clone(), settings.clone());
        async move {
            let io = Box::new(tcp_connect(&host, port, &settings).await?);
            Ok(Dialed { io, http2: settings.http == HttpVersions::Http2Only })
        }
    });
    Pool::new(&server, connections, &Limits::default(), dial)
}

fn http2_only() -> Connections {
    Connections { http: HttpVersions::Http2Only, ..Connections::default() }
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn watch(path: &str) -> Request<Body> {
    Request::get(path).extension(Lane::Streams).body(Body::empty()).unwrap()
}

/// A call that can be spawned.
fn call(pool: &Pool, request: Request<Body>) -> impl Future<Output = Result<Response<Body>, TransportError>> + use<> {
    let pool = pool.clone();
    async move { pool.send(request).await }
}

async fn text(response: Response<Body>) -> Result<String, BoxError> {
    Ok(String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?)
}

/// The fault inside the error of a body.
fn fault_of(error: &BoxError) -> Option<TransportFault> {
    error.downcast_ref().map(TransportError::fault)
}

/// Serves one connection with hyper.
async fn serve_http<I, F, R, B>(io: I, http2: Option<u32>, answer: F)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<hyper::body::Incoming>) -> R + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = hyper::service::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    // The client checks how a connection ends.
    let _ = match http2 {
        Some(streams) => {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(streams)
                .serve_connection(TokioIo::new(io), service)
                .await
        }
        None => hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), service).await,
    };
}

/// A body with one chunk that stays open until it is dropped.
struct Word(Option<Bytes>);

impl Word {
    fn new(word: &'static str) -> Self {
        Word(Some(Bytes::from_static(word.as_bytes())))
    }
}

impl http_body::Body for Word {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(word) => std::task::Poll::Ready(Some(Ok(http_body::Frame::data(word)))),
            None => std::task::Poll::Pending,
        }
    }
}

/// A TCP server that runs a function for each connection, and counts them.
struct RawServer {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl RawServer {
    async fn start<F, R>(serve: F) -> Self
    where
        F: Fn(usize, TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(number, stream));
            }
        });
        RawServer { address, accepted, task }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the head of an HTTP/1.1 request.
async fn read_head<R: tokio::io::AsyncRead + Unpin>(stream: &mut R) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Waits until a condition holds, yielding to other tasks.
async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let wait = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    // Reached only by a defect, however busy the machine is.
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Reads a client's preface and frames up to its first request.
async fn read_until_headers<R: tokio::io::AsyncRead + Unpin>(stream: &mut R) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).await?;
        if head[3] == HEADERS {
            return Ok(());
        }
    }
}

/// A pool over TLS, with both versions of HTTP on offer.
fn over_tls(url: &str, ca: &str) -> Pool {
    use rustls::pki_types::pem::PemObject;

    let server = ServerUrl::parse(url).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = crate::tls::default_provider().unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let (host, port) = (server.host().to_owned(), server.port());
    let dial = FakeDial(move |_| {
        let (connector, host) = (connector.clone(), host.clone());
        async move {
            let stream = tcp_connect(&host, port, &Connections::default()).await?;
            let stream = connector.connect(host.try_into().unwrap(), stream).await.unwrap();
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok(Dialed { io: Box::new(stream), http2 })
        }
    });
    Pool::new(&server, &Connections::default(), &Limits::default(), dial)
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
