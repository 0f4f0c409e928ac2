//! A small HTTP server for health and the live page: sockets and connection limits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// The maximum number of connections. A further one replaces the oldest: responses are short, so the oldest connection
/// is the most likely to be idle. Streams keep their connection; the site limits their number.
pub(crate) const CONNECTIONS: usize = 64;
/// The timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The lifetime of a connection, which serves one request; for a stream, the time to read one part of it.
pub(crate) const LIFE: Duration = Duration::from_secs(30);
/// The maximum size of the head of a request.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long requests in flight may take at shutdown.
const DRAIN: Duration = Duration::from_secs(5);
/// The pause after `accept` failed for lack of resources.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The interval between log messages about too many connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The interval of a site's upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

/// The content of a server.
pub(crate) trait Site: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + 'static;

    /// Responds to a request.
    fn respond(&self, request: http::request::Parts, line: Line) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns whether there is upkeep to do.
    fn has_upkeep(&self) -> bool {
        false
    }

    /// Does periodic work.
    fn upkeep(&self) {}
}

/// The connection of a request, as a site sees it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    lease: Arc<Lease>,
    /// True when the server stops.
    pub(crate) stopped: watch::Receiver<bool>,
}

impl Line {
    pub(crate) fn new(stopped: watch::Receiver<bool>) -> Self {
        let until = Mutex::new(Instant::now() + LIFE);
        Line { lease: Arc::new(Lease { until, lasts: AtomicBool::new(false) }), stopped }
    }

    /// Extends the lifetime of a streaming connection whose client has read a part.
    pub(crate) fn prolong(&self) {
        self.lease.lasts.store(true, Ordering::Relaxed);
        *self.lease.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + LIFE;
    }

    fn until(&self) -> Instant {
        *self.lease.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lasts(&self) -> bool {
        self.lease.lasts.load(Ordering::Relaxed)
    }

    /// Completes when the lifetime is over.
    async fn expired(&self) {
        loop {
            let until = self.until();
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// The deadline of a connection.
#[derive(Debug)]
struct Lease {
    until: Mutex<Instant>,
    lasts: AtomicBool,
}

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub(crate) struct Running {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(listener: TcpListener, address: SocketAddr, site: Arc<impl Site>) -> Self {
        let (stop, stopped) = watch::channel(false);
        Running { address, stop, task: tokio::spawn(serve(listener, site, stopped)) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets requests finish for at most five seconds, and returns when every socket is closed.
    pub(crate) async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // An error means that the task has ended already.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address does not parse or resolve.
    #[error("cannot listen on {address:?}: {source}")]
    Address {
        /// The address as configured.
        address: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Another program listens on the port.
    #[error(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be bound: it may not belong to this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Binds a host and a port. `:8081` means all addresses of the machine.
pub(crate) async fn listen(given: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let fault = |source| StartError::Address { address: given.to_owned(), source };
    let addresses: Vec<SocketAddr> = match given.strip_prefix(':') {
        Some(port) => {
            let port: u16 = port.parse().map_err(|error| fault(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
            // The first serves both address families where the system has both.
            vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
        }
        None => tokio::net::lookup_host(given).await.map_err(fault)?.collect(),
    };
    let mut failure = fault(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().map_err(fault)?;
                return Ok((listener, address));
            }
            // A port in use is an error even if another address would be free.
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                return Err(StartError::InUse { address });
            }
            Err(source) => failure = StartError::Listen { address, source },
        }
    }
    Err(failure)
}

/// Accepts connections until stopped. It owns the tasks of all connections, so ending it ends them.
async fn serve(listener: TcpListener, site: Arc<impl Site>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut open: VecDeque<(AbortHandle, Line)> = VecDeque::new();
    let mut said: Option<Instant> = None;
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = stop_requested(&mut stopped) => break,
            Some(_) = connections.join_next() => {}
            _ = upkeep.tick(), if site.has_upkeep() => site.upkeep(),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    open.retain(|(connection, _)| !connection.is_finished());
                    if open.len() >= CONNECTIONS {
                        close_oldest(&mut open);
                        if said.is_none_or(|said| said.elapsed() >= LOG_INTERVAL) {
                            said = Some(Instant::now());
                            tracing::warn!(%peer, limit = CONNECTIONS, "too many connections; closing the oldest");
                        }
                    }
                    let (site, line) = (Arc::clone(&site), Line::new(stopped.clone()));
                    let its_line = line.clone();
                    let task = connections.spawn(async move {
                        tokio::select! {
                            ended = connection(stream, site, line.clone()) => match ended {
                                Ok(()) => {}
                                Err(error) => tracing::debug!(%peer, %error, "connection ended"),
                            },
                            () = line.expired() => {
                                tracing::debug!(%peer, "request timed out; connection closed");
                            }
                        }
                    });
                    open.push_back((task, its_line));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed; retrying");
                    sleep(ACCEPT_AGAIN).await;
                }
            },
        }
    }
    drop(listener);
    let finished = timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if finished.is_err() {
        connections.shutdown().await;
    }
}

/// Closes the oldest connection.
fn close_oldest(open: &mut VecDeque<(AbortHandle, Line)>) {
    let place = open.iter().position(|(_, line)| !line.lasts()).unwrap_or_default();
    if let Some((oldest, _)) = open.remove(place) {
        oldest.abort();
    }
}

/// Completes when the server is stopped or its handle is dropped.
pub(crate) async fn stop_requested(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Serves one request. Probes and scrapes are seconds apart: keep-alive gains nothing, and without it a connection can
/// have a lifetime.
async fn connection(stream: TcpStream, site: Arc<impl Site>, line: Line) -> Result<(), hyper::Error> {
    let mut stopped = line.stopped.clone();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (site, line) = (Arc::clone(&site), line.clone());
        async move { Ok::<_, Infallible>(site.respond(request.into_parts().0, line).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = &mut connection => return ended,
        () = stop_requested(&mut stopped) => {}
    }
    // An idle connection is not waited for.
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Returns whether the Host header names this machine. A page in a local browser can resolve its own name to this
/// address (DNS rebinding), but cannot forge the Host header.
pub(crate) fn asks_for_this_machine(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).is_some_and(names_this_machine)
}

fn names_this_machine(host: &HeaderValue) -> bool {
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let host = host.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A complete response.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) fn text(code: StatusCode, body: impl Into<String>) -> Answer {
    with_type(code, "text/plain; charset=utf-8", body.into())
}

/// The response to methods other than GET and HEAD.
pub(crate) fn only_readable() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read: GET or HEAD\n");
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

pub(crate) fn with_type(code: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    with_body(code, media_type, Full::new(body.into()))
}

pub(crate) fn with_body<B>(code: StatusCode, media_type: &'static str, body: B) -> Response<B> {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}
