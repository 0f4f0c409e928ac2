//! A small HTTP server for health and the live page: sockets and connection limits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_base::http::{Listener, ListenerEvent, ServerHandle, ShutdownSignal, serve_connection};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::secure::{AccessFilter, Security};
use crate::tls::{ServerTls, TlsError};

/// The maximum number of connections. A further one replaces the oldest: responses are short, so the oldest connection
/// is the most likely to be idle. Streams keep their connection; the site limits their number.
pub(crate) const CONNECTIONS: usize = 64;
/// The timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The lifetime of a connection, which serves one request; for a stream, the time to read one part of it.
pub(crate) const LIFETIME: Duration = Duration::from_secs(30);
/// The maximum size of the head of a request.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long requests in flight may take at shutdown.
const DRAIN: Duration = Duration::from_secs(5);
/// The interval between log messages about too many connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The interval of a site's upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

/// The content of a server.
pub(crate) trait Site: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error = Infallible> + From<Full<Bytes>> + Send + 'static;

    /// Responds to a request.
    fn respond(
        &self,
        request: http::request::Parts,
        connection: Connection,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns whether a request for this path passes without authentication where others need it.
    fn is_open(&self, _path: &str) -> bool {
        false
    }

    /// Returns whether there is upkeep to do.
    fn has_upkeep(&self) -> bool {
        false
    }

    /// Does periodic work.
    fn upkeep(&self) {}
}

/// The connection of a request, as a site sees it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    lifetime: Arc<ConnectionLifetime>,
    /// Completes when the server shuts down.
    pub(crate) shutdown: ShutdownSignal,
}

impl Connection {
    pub(crate) fn new(shutdown: ShutdownSignal) -> Self {
        let deadline = Mutex::new(Instant::now() + LIFETIME);
        Connection {
            lifetime: Arc::new(ConnectionLifetime { deadline, is_streaming: AtomicBool::new(false) }),
            shutdown,
        }
    }

    /// Extends the lifetime of a streaming connection whose client has read a part.
    pub(crate) fn extend(&self) {
        self.lifetime.is_streaming.store(true, Ordering::Relaxed);
        *self.lifetime.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + LIFETIME;
    }

    fn deadline(&self) -> Instant {
        *self.lifetime.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_streaming(&self) -> bool {
        self.lifetime.is_streaming.load(Ordering::Relaxed)
    }

    /// Completes when the lifetime is over.
    async fn expired(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// The deadline of a connection.
#[derive(Debug)]
struct ConnectionLifetime {
    deadline: Mutex<Instant>,
    is_streaming: AtomicBool,
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
    /// There is no usable certificate for TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Binds a host and a port. `:8081` means all addresses of the machine.
///
/// # Errors
/// If the address is invalid or cannot be bound.
pub async fn listen(given: &str) -> Result<(TcpListener, SocketAddr), StartError> {
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

/// Starts to serve a site on a bound socket, with TLS and authentication if there is `security`.
pub(crate) fn start(
    listener: TcpListener,
    address: SocketAddr,
    site: impl Site,
    security: Option<Security>,
) -> ServerHandle {
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut tasks = JoinSet::new();
    let security = security.map(|Security { tls, filter, certificate }| {
        if let Some(certificate) = certificate {
            tasks.spawn(certificate.run());
        }
        (tls, Arc::new(filter))
    });
    let (site, open) = (Arc::new(site), VecDeque::new());
    let listener = SiteListener { listener, site, security, open, last_warning: None, upkeep, _tasks: tasks };
    ServerHandle::start(address, DRAIN, listener)
}

/// Accepts the connections of a site and limits their number.
struct SiteListener<S> {
    listener: TcpListener,
    site: Arc<S>,
    security: Option<(ServerTls, Arc<AccessFilter>)>,
    /// The open connections, oldest first.
    open: VecDeque<(AbortHandle, Connection)>,
    /// When too many connections were logged last.
    last_warning: Option<Instant>,
    upkeep: Interval,
    /// Renews the certificate. Aborted when the listener is dropped.
    _tasks: JoinSet<()>,
}

impl<S: Site> Listener for SiteListener<S> {
    type Stream = TcpStream;

    async fn next(&mut self) -> io::Result<ListenerEvent<TcpStream>> {
        loop {
            tokio::select! {
                biased;
                _ = self.upkeep.tick(), if self.site.has_upkeep() => self.site.upkeep(),
                accepted = self.listener.accept() => {
                    let (stream, peer) = accepted?;
                    return Ok(ListenerEvent::Connection(stream, peer));
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>, shutdown: &ShutdownSignal) {
        self.open.retain(|(task, _)| !task.is_finished());
        if self.open.len() >= CONNECTIONS {
            self.close_oldest();
            if self.last_warning.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
                self.last_warning = Some(Instant::now());
                tracing::warn!(%peer, limit = CONNECTIONS, "too many connections; closing the oldest");
            }
        }
        let connection = Connection::new(shutdown.clone());
        let (site, security, its_own) = (Arc::clone(&self.site), self.security.clone(), connection.clone());
        let task = connections.spawn(async move {
            tokio::select! {
                ended = serve_stream(stream, site, security, its_own.clone()) => match ended {
                    Ok(()) => {}
                    Err(error) => tracing::debug!(%peer, %error, "connection ended"),
                },
                () = its_own.expired() => {
                    tracing::debug!(%peer, "request timed out; connection closed");
                }
            }
        });
        self.open.push_back((task, connection));
    }

    /// Event streams end by the shutdown signal.
    fn close(self) -> impl FnMut() + Send {
        || {}
    }
}

impl<S> SiteListener<S> {
    /// Closes the oldest connection, preferably one without a stream.
    fn close_oldest(&mut self) {
        let index = self.open.iter().position(|(_, connection)| !connection.is_streaming()).unwrap_or_default();
        if let Some((task, _)) = self.open.remove(index) {
            task.abort();
        }
    }
}

/// Serves one request, after the handshake of TLS if there is security.
async fn serve_stream(
    stream: TcpStream,
    site: Arc<impl Site>,
    security: Option<(ServerTls, Arc<AccessFilter>)>,
    connection: Connection,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some((tls, filter)) = security else { return Ok(serve_request(stream, site, None, connection).await?) };
    let mut shutdown = connection.shutdown.clone();
    let stream = tokio::select! {
        accepted = tls.accept(stream) => accepted?,
        () = shutdown.requested() => return Ok(()),
    };
    Ok(serve_request(stream, site, Some(filter), connection).await?)
}

/// Serves one request. Probes and scrapes are seconds apart: keep-alive gains nothing, and without it a connection can
/// have a lifetime.
async fn serve_request(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    site: Arc<impl Site>,
    filter: Option<Arc<AccessFilter>>,
    connection: Connection,
) -> Result<(), hyper::Error> {
    let shutdown = connection.shutdown.clone();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (site, filter, connection) = (Arc::clone(&site), filter.clone(), connection.clone());
        async move {
            let head = request.into_parts().0;
            if let Some(filter) = filter.filter(|_| !site.is_open(head.uri.path()))
                && let Err(refusal) = filter.admit(&head).await
            {
                return Ok(refusal.into_response().map(Into::into));
            }
            Ok::<_, Infallible>(site.respond(head, connection).await)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    serve_connection(builder.serve_connection(TokioIo::new(stream), service), shutdown).await
}

/// Returns whether the Host header names this machine. A page in a local browser can resolve its own name to this
/// address (DNS rebinding), but cannot forge the Host header.
pub(crate) fn has_loopback_host(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).is_some_and(is_loopback_host)
}

fn is_loopback_host(host: &HeaderValue) -> bool {
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let host = host.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A complete response.
pub(crate) type FullResponse = Response<Full<Bytes>>;

pub(crate) fn text(code: StatusCode, body: impl Into<String>) -> FullResponse {
    with_type(code, "text/plain; charset=utf-8", body.into())
}

/// The response to methods other than GET and HEAD.
pub(crate) fn method_not_allowed() -> FullResponse {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read: GET or HEAD\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

pub(crate) fn with_type(code: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> FullResponse {
    with_body(code, media_type, Full::new(body.into()))
}

pub(crate) fn with_body<B>(code: StatusCode, media_type: &'static str, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
