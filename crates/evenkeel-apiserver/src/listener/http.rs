//! The listener: TCP, optionally TLS, HTTP/1.1 and HTTP/2 (ARC-3).
//!
//! The accept loop of [`evenkeel_base::http`] owns the tasks of all connections, and each connection owns the tasks of
//! its streams. Aborting the accept loop therefore ends everything, and no socket outlives it (ARC-4).

use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_base::http::{Listener, ListenerEvent, ServerHandle, ShutdownSignal, serve_connection};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::auth::ClientCertificate;
use super::service::{Caller, InProcess, Peer, ServerShared};
use super::sessions::Sessions;
use super::tls::Identity;
use crate::faults::Orders;

/// The timeout from connecting to the end of the first request's head (SEC-65).
const FIRST_HEAD: Duration = Duration::from_secs(10);
/// The timeout of an idle HTTP/1 connection, including the time to send a later head.
const KEPT_ALIVE: Duration = Duration::from_secs(120);
/// The time that requests in flight get to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(2);
/// The largest head of an HTTP/1 request, and the most of a response that is buffered.
const HTTP1_BUFFER: usize = 256 * 1024;
/// The largest header list in HTTP/2.
const HTTP2_HEADERS: u32 = 64 * 1024;
/// The HTTP/2 receive window of a request body: more than one whole body.
const HTTP2_WINDOW: u32 = 4 * 1024 * 1024;
const HTTP2_FRAME: u32 = 1024 * 1024;
/// The most response bytes buffered per stream for a slow client.
const HTTP2_SEND: usize = 1024 * 1024;
/// The limit of concurrent streams per HTTP/2 connection.
const HTTP2_STREAMS: u32 = 1000;

/// Connection counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Closed at once because of the connection limit.
    pub rejected: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    open: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.open.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
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
        let acceptor = Acceptor { address, port, known, tls, shared, counters: Arc::clone(&counters), max_connections };
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
}

impl Listener for Acceptor {
    type Stream = TcpStream;

    async fn next(&mut self) -> io::Result<ListenerEvent<TcpStream>> {
        loop {
            let orders = tokio::select! {
                biased;
                orders = poll_fn(|cx| self.shared.faults.poll_orders(self.known, cx)) => orders,
                accepted = accept(&mut self.port, self.address, self.known.refuse) => {
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
        if connections.len() as u64 >= self.max_connections {
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%peer, limit = self.max_connections, "too many connections; closing the new one");
            return;
        }
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        self.counters.open.fetch_add(1, Ordering::Relaxed);
        let open = ConnectionGuard(Arc::clone(&self.counters));
        let (tls, shared, shutdown) = (self.tls.clone(), Arc::clone(&self.shared), shutdown.clone());
        connections.spawn(async move {
            let _open = open;
            connection(stream, peer, tls, shared, shutdown).await;
        });
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
struct ConnectionGuard(Arc<Counters>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
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

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Identity>>,
    shared: Arc<ServerShared>,
    shutdown: ShutdownSignal,
) {
    // Without this option, small events wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    let Some(identity) = tls else {
        return serve(stream, peer, ClientCertificate::Absent, shared, shutdown).await;
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
    match timeout(FIRST_HEAD, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificate = identity.judge(stream.get_ref().1.peer_certificates());
            serve(stream, peer, certificate, shared, shutdown).await;
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
    }
}

async fn serve<S>(
    stream: S,
    address: SocketAddr,
    certificate: ClientCertificate,
    shared: Arc<ServerShared>,
    shutdown: ShutdownSignal,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let sessions = Sessions::default();
    let peer = Arc::new(Peer { address, certificate, sessions: sessions.clone() });
    let mut stopping = shutdown.clone();
    let has_request = AtomicBool::new(false);
    let has_request = &has_request;
    let service = service_fn(move |request: http::Request<Incoming>| {
        has_request.store(true, Ordering::Relaxed);
        InProcess::new(Arc::clone(&shared), Caller::Network(Arc::clone(&peer))).serve(request)
    });
    let builder = protocols();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(serve_connection(connection, shutdown));
    let mut first_head = pin!(sleep(FIRST_HEAD));
    let mut is_waiting = true;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(peer = %address, %error, "connection ended");
                }
                break;
            }
            () = &mut first_head, if is_waiting => {
                is_waiting = false;
                if !has_request.load(Ordering::Relaxed) {
                    tracing::debug!(peer = %address, "no request in time; closing");
                    return;
                }
            }
        }
    }
    // An upgraded connection counts as open, and ends with this task.
    tokio::select! {
        () = sessions.finished() => {}
        () = stopping.requested() => {}
    }
}

fn protocols() -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams::default());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(KEPT_ALIVE)
        .max_buf_size(HTTP1_BUFFER)
        // Large lists are many buffers of the store, which are written without a copy.
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .max_send_buf_size(HTTP2_SEND)
        .max_concurrent_streams(HTTP2_STREAMS)
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
        streams.spawn(stream);
    }
}
