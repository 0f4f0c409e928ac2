//! The listener: TCP, optionally TLS, HTTP/1.1 and HTTP/2 (ARC-3).
//!
//! The accept loop of [`evenkeel_base::http`] owns the tasks of all connections, and each connection owns the tasks of
//! its streams. Aborting the accept loop therefore ends everything, and no socket outlives it (ARC-4).

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::http::{Listener, ListenerEvent, ServerHandle, ShutdownSignal};
use evenkeel_base::log_throttle::LogThrottle;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, InFlight, NetworkBody, until_stalled};
use super::auth::ClientCertificate;
use super::connections::{ConnectionAdmission, ConnectionId, ConnectionLimits, ConnectionTable};
use super::service::{Caller, InProcess, Peer, ServerShared};
use super::sessions::Sessions;
use super::stall::StallGuard;
use super::tls::Identity;
use crate::faults::Orders;
use crate::http_types::ConnectionCut;
use crate::memory::ConnectionMemory;

/// The timeout from connecting to the end of the first request's head (SEC-65).
const FIRST_HEAD: Duration = Duration::from_secs(10);
/// The timeout of a connection without a request in flight.
const IDLE: Duration = Duration::from_secs(90);
/// The time that an idle connection has to close after it was told to.
const IDLE_CLOSE: Duration = Duration::from_secs(10);
/// The timeout of an HTTP/1 request's head, including the time that the connection was idle before.
const HTTP1_HEAD: Duration = Duration::from_secs(120);
/// The interval of HTTP/2 pings, and the time in which a client must acknowledge one.
const HTTP2_PING: Duration = Duration::from_secs(30);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The time after which the operating system probes a silent peer, and the interval of its probes.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
/// Refused and evicted connections are logged once per interval.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The time that requests in flight get to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(2);
/// The largest head of an HTTP/1 request, and the most of a response that is buffered.
const HTTP1_BUFFER: usize = 256 * 1024;
/// The largest header list in HTTP/2.
const HTTP2_HEADERS: u32 = 64 * 1024;
/// The HTTP/2 receive windows of a request body and of all bodies of a connection: what is buffered before it is read.
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;
const HTTP2_FRAME: u32 = 256 * 1024;
/// The most response bytes buffered per stream for a slow client.
const HTTP2_SEND: usize = 256 * 1024;
/// The limit of concurrent streams per HTTP/2 connection.
const HTTP2_STREAMS: u32 = 1000;
/// Streams that a client may reset before they are handled. One more ends the connection (CVE-2023-44487).
const HTTP2_PENDING_RESETS: usize = 20;
/// Streams that the server may reset because of the client's errors. One more ends the connection (CVE-2025-8671).
const HTTP2_ERROR_RESETS: usize = 100;

/// Connection counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Closed at once because of the connection limit.
    pub rejected: u64,
    /// Closed to make room for a newer one: without credentials, or idle.
    pub evicted: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    open: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
    evicted: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.open.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }
}

/// A running listener. Dropping it stops it at once.
#[derive(Debug)]
pub(crate) struct ListenerHandle {
    server: ServerHandle,
    pub(crate) counters: Arc<Counters>,
}

impl ListenerHandle {
    pub(crate) fn start(
        listener: TcpListener,
        address: SocketAddr,
        tls: Option<Arc<Identity>>,
        shared: Arc<ServerShared>,
        max_connections: u64,
    ) -> Self {
        let (port, known) = (Port::Open(listener), Orders::default());
        let counters = Arc::new(Counters::default());
        let acceptor = Acceptor {
            address,
            port,
            known,
            tls,
            shared,
            counters: Arc::clone(&counters),
            max_connections,
            table: Arc::new(Mutex::new(ConnectionTable::new(ConnectionLimits::of(max_connections)))),
            epoch: Instant::now(),
            full: LogThrottle::new(LOG_INTERVAL),
        };
        ListenerHandle { server: ServerHandle::start(address, DRAIN, acceptor), counters }
    }

    /// Stops accepting, lets requests finish for a moment, and returns when every socket is closed.
    pub(crate) async fn stop(self) {
        self.server.shutdown().await;
    }
}

/// The state of the port.
enum Port {
    Open(TcpListener),
    /// Bound but not listening: reserved, while connections are refused.
    Refusing(TcpSocket),
    /// Not bound, because binding failed; it is retried.
    Lost,
}

struct Acceptor {
    address: SocketAddr,
    port: Port,
    /// The orders of the fault injector that have been followed.
    known: Orders,
    tls: Option<Arc<Identity>>,
    shared: Arc<ServerShared>,
    counters: Arc<Counters>,
    max_connections: u64,
    table: Arc<Mutex<Connections>>,
    /// The zero of the times in the table.
    epoch: Instant,
    full: LogThrottle,
}

type Connections = ConnectionTable<AbortHandle>;

impl Acceptor {
    /// Closes a connection that the table has given up.
    fn evict(&self, victim: &AbortHandle) {
        victim.abort();
        self.counters.evicted.fetch_add(1, Ordering::Relaxed);
    }
}

fn lock(table: &Mutex<Connections>) -> MutexGuard<'_, Connections> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener for Acceptor {
    type Stream = TcpStream;

    async fn next(&mut self) -> io::Result<ListenerEvent<TcpStream>> {
        loop {
            let orders = tokio::select! {
                biased;
                orders = poll_fn(|cx| self.shared.faults.poll_orders(self.known, cx)) => orders,
                accepted = accept(&mut self.port, self.address, self.known.refuse) => {
                    if let Err(error) = &accepted
                        && is_out_of_descriptors(error)
                        && let Some(victim) = lock(&self.table).evict(self.epoch.elapsed())
                    {
                        self.evict(&victim);
                    }
                    let (stream, peer) = accepted?;
                    return Ok(ListenerEvent::Connection(stream, peer));
                }
            };
            let cuts = orders.cuts != self.known.cuts;
            self.port = follow(std::mem::replace(&mut self.port, Port::Lost), self.address, orders.refuse);
            self.known = orders;
            if cuts {
                return Ok(ListenerEvent::CloseConnections);
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>, shutdown: &ShutdownSignal) {
        let activity = Arc::new(Activity::default());
        let admission = lock(&self.table).admit(Arc::clone(&activity), self.epoch.elapsed());
        let id = match admission {
            ConnectionAdmission::Admitted(id) => id,
            ConnectionAdmission::Replacing(id, victim) => {
                self.evict(&victim);
                id
            }
            ConnectionAdmission::Refused => {
                self.counters.rejected.fetch_add(1, Ordering::Relaxed);
                if let Some(unlogged) = self.full.admit(Instant::now()) {
                    let limit = self.max_connections;
                    tracing::warn!(%peer, limit, unlogged, "all connections are in use; closing the new one");
                }
                return;
            }
        };
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        self.counters.open.fetch_add(1, Ordering::Relaxed);
        let open = ConnectionGuard { counters: Arc::clone(&self.counters), table: Arc::clone(&self.table), id };
        let connection = Connection {
            peer,
            activity,
            epoch: self.epoch,
            tls: self.tls.clone(),
            shared: Arc::clone(&self.shared),
            shutdown: shutdown.clone(),
        };
        let handle = connections.spawn(async move {
            let _open = open;
            connection.run(stream).await;
        });
        lock(&self.table).set_handle(id, handle);
    }

    fn close(self) -> impl FnMut() + Send {
        let Acceptor { shared, port, .. } = self;
        drop(port);
        move || shared.handler.close_watches()
    }
}

/// Opens or closes the port.
fn follow(port: Port, address: SocketAddr, refuse: bool) -> Port {
    match port {
        Port::Open(listener) if refuse => {
            drop(listener);
            bind(address).map_or(Port::Lost, Port::Refusing)
        }
        Port::Refusing(socket) if !refuse => socket.listen(BACKLOG).map_or(Port::Lost, Port::Open),
        port => port,
    }
}

/// Counts a connection until it is dropped.
struct ConnectionGuard {
    counters: Arc<Counters>,
    table: Arc<Mutex<Connections>>,
    id: ConnectionId,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
        lock(&self.table).remove(self.id);
    }
}

/// Returns whether an error means that the process or the system has no file descriptor left (EMFILE, ENFILE).
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

const BACKLOG: u32 = 1024;

/// Binds without listening.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of an earlier server in TIME_WAIT do not block the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Binds and listens.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG)
}

async fn accept(port: &mut Port, address: SocketAddr, refuse: bool) -> io::Result<(TcpStream, SocketAddr)> {
    if let Port::Lost = port {
        *port = if refuse { Port::Refusing(bind(address)?) } else { Port::Open(listen(address)?) };
    }
    match port {
        Port::Open(listener) => listener.accept().await,
        Port::Refusing(_) | Port::Lost => pending().await,
    }
}

/// A connection and what it needs.
struct Connection {
    peer: SocketAddr,
    activity: Arc<Activity>,
    epoch: Instant,
    tls: Option<Arc<Identity>>,
    shared: Arc<ServerShared>,
    shutdown: ShutdownSignal,
}

impl Connection {
    async fn run(mut self, stream: TcpStream) {
        // Without this option, small events wait for the acknowledgement of earlier ones.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let stream = StallGuard::new(stream, Arc::clone(&self.activity));
        let Some(identity) = self.tls.take() else {
            return self.serve(stream, ClientCertificate::Absent).await;
        };
        let (acceptor, peer) = (TlsAcceptor::from(Arc::clone(&identity.config)), self.peer);
        match timeout(FIRST_HEAD, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificate = identity.judge(stream.get_ref().1.peer_certificates());
                self.serve(stream, certificate).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
        }
    }

    async fn serve<S>(self, stream: S, certificate: ClientCertificate)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Connection { peer: address, activity, epoch, tls: _, shared, mut shutdown } = self;
        let sessions = Sessions::default();
        let memory = Arc::new(ConnectionMemory::new(Arc::clone(&shared.memory)));
        let peer = Peer { address, certificate, sessions: sessions.clone(), activity: Arc::clone(&activity), memory };
        let peer = Arc::new(peer);
        let requests = Arc::clone(&activity);
        let service = service_fn(move |request: http::Request<Incoming>| {
            let in_flight = InFlight::start(Arc::clone(&requests), epoch);
            // In a box: hyper and tokio move the future of an HTTP/2 stream several times, and it is kilobytes long.
            let service = InProcess::new(Arc::clone(&shared), Caller::Network(Arc::clone(&peer)));
            let response = Box::pin(service.serve(request));
            async move {
                let response = response.await?;
                Ok::<_, ConnectionCut>(response.map(|body| NetworkBody::new(body, in_flight)))
            }
        });
        let builder = protocols();
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        // Whichever is due first: the first request, the end of the idle timeout, the end of an idle connection.
        let mut timer = pin!(sleep(FIRST_HEAD));
        let (mut is_closing, mut is_idle) = (false, false);
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %address, %error, "connection ended");
                    }
                    break;
                }
                () = shutdown.requested(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut timer => {
                    if !activity.has_had_requests() || is_idle {
                        tracing::debug!(peer = %address, is_idle, "no request in time; closing");
                        return;
                    }
                    let idle = activity.idle_since().map(|since| epoch.elapsed().saturating_sub(since));
                    match idle {
                        Some(idle) if idle >= IDLE => {
                            is_idle = true;
                            connection.as_mut().graceful_shutdown();
                            timer.as_mut().reset(Instant::now() + IDLE_CLOSE);
                        }
                        idle => timer.as_mut().reset(Instant::now() + IDLE.saturating_sub(idle.unwrap_or_default())),
                    }
                }
            }
        }
        // An upgraded connection counts as open, and ends with this task.
        tokio::select! {
            () = sessions.finished() => {}
            () = shutdown.requested() => {}
        }
    }
}

fn protocols() -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams::default());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP1_HEAD)
        .max_buf_size(HTTP1_BUFFER)
        // Large lists are many buffers of the store, which are written without a copy.
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .max_send_buf_size(HTTP2_SEND)
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_pending_accept_reset_streams(HTTP2_PENDING_RESETS)
        .max_local_error_reset_streams(HTTP2_ERROR_RESETS)
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .max_header_list_size(HTTP2_HEADERS);
    builder
}

/// Runs the streams of one HTTP/2 connection, which end with it.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while streams.try_join_next().is_some() {}
        streams.spawn(until_stalled(stream));
    }
}
