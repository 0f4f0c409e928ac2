//! A small HTTP server, for what a program tells of itself: the sockets, and what holds for all answers.

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

/// So many connections at once. One more takes the place of the oldest: those that ask get their answer soon, so the oldest is the one
/// that is least likely to ask for anything. Those that last by design keep their place; the site says how many there may be.
pub(crate) const CONNECTIONS: usize = 64;
/// How long a client may take for the head of its request.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may live, which is one request; or, if its answer lasts, how long its client may take for a part of it.
pub(crate) const LIFE: Duration = Duration::from_secs(30);
/// How large the head of a request may be.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long requests that are being answered may take when the server ends.
const DRAIN: Duration = Duration::from_secs(5);
/// How long to wait before accepting again after the system has run out of something.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How often it is said that there are too many connections.
const SAID: Duration = Duration::from_secs(60);
/// How often a site does its upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

/// What a server answers.
pub(crate) trait Site: Send + Sync + 'static {
    /// What answers consist of.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + 'static;

    /// Answers a request.
    fn respond(&self, request: http::request::Parts, line: Line) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Whether there is upkeep to do.
    fn has_upkeep(&self) -> bool {
        false
    }

    /// Is called every now and then.
    fn upkeep(&self) {}
}

/// What a site knows of the connection that it answers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    lease: Arc<Lease>,
    /// True when the server ends.
    pub(crate) stopped: watch::Receiver<bool>,
}

impl Line {
    pub(crate) fn new(stopped: watch::Receiver<bool>) -> Self {
        let until = Mutex::new(Instant::now() + LIFE);
        Line { lease: Arc::new(Lease { until, lasts: AtomicBool::new(false) }), stopped }
    }

    /// The answer lasts, and its client has taken a part of it: it may take as long again for the next one.
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

    /// Returns when the connection has lived for long enough.
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

/// For how long a connection may live.
#[derive(Debug)]
struct Lease {
    until: Mutex<Instant>,
    lasts: AtomicBool,
}

/// A server that runs. Dropping it ends it at once.
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

    /// Accepts nothing more, lets requests finish, for five seconds at most, and returns when every socket is closed.
    pub(crate) async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // An error means that the task is gone, which is what is asked for.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is no address.
    #[error("cannot listen on {address:?}: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Another program listens there.
    #[error(
        "{address} is in use by another program; stop that one, or listen on another port (port 0 picks a free one)"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on: it may not be this machine's.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// Listens on a host and a port. `:8081` is every address of the machine.
pub(crate) async fn listen(given: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let fault = |source| StartError::Address { address: given.to_owned(), source };
    let addresses: Vec<SocketAddr> = match given.strip_prefix(':') {
        Some(port) => {
            let port: u16 = port.parse().map_err(|error| fault(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
            // The first is for both families, where the system has both.
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
            // A port that is taken is taken, whichever other address would be free.
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                return Err(StartError::InUse { address });
            }
            Err(source) => failure = StartError::Listen { address, source },
        }
    }
    Err(failure)
}

/// Accepts until told to stop. It owns the tasks of all connections, so that ending it ends everything.
async fn serve(listener: TcpListener, site: Arc<impl Site>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut open: VecDeque<(AbortHandle, Line)> = VecDeque::new();
    let mut said: Option<Instant> = None;
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = told_to_stop(&mut stopped) => break,
            Some(_) = connections.join_next() => {}
            _ = upkeep.tick(), if site.has_upkeep() => site.upkeep(),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    open.retain(|(connection, _)| !connection.is_finished());
                    if open.len() >= CONNECTIONS {
                        close_oldest(&mut open);
                        if said.is_none_or(|said| said.elapsed() >= SAID) {
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

/// Makes room for one more.
fn close_oldest(open: &mut VecDeque<(AbortHandle, Line)>) {
    let place = open.iter().position(|(_, line)| !line.lasts()).unwrap_or_default();
    if let Some((oldest, _)) = open.remove(place) {
        oldest.abort();
    }
}

/// Returns when the server is to stop, or its handle is gone.
pub(crate) async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Serves one request. Probes and scrapes come seconds apart: a connection that is kept for the next one gains nothing, and
/// one that is not can be given a time to live.
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
        () = told_to_stop(&mut stopped) => {}
    }
    // Whoever has not asked yet is not waited for.
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Whether whoever asked thinks to talk to this machine. A page in a browser on this machine may have a name of its own lead
/// here; it cannot fake what it asks for.
pub(crate) fn asks_for_this_machine(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).is_some_and(names_this_machine)
}

fn names_this_machine(host: &HeaderValue) -> bool {
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let host = host.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An answer that is there at once.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) fn text(code: StatusCode, body: impl Into<String>) -> Answer {
    with_type(code, "text/plain; charset=utf-8", body.into())
}

/// The answer to those who want to change what can only be read.
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
