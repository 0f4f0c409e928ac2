//! The sockets of a webhook server: TLS, limits, graceful shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::http::{Listener, ListenerEvent, ShutdownSignal, serve_connection};
use evenkeel_base::log_throttle::LogThrottle;
use evenkeel_runtime::tls::ServerTls;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::activity::{Activity, TrackedStream};
use super::{Shared, dispatch};

/// The maximum number of connections. A further one replaces the one that has been idle for longest. API servers have one
/// request at a time on each.
const CONNECTIONS: usize = 512;
/// The maximum size of the head of a request.
const HEAD_BYTES: usize = 1 << 20;
/// The interval between log messages about too many connections.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Accepts the connections of a webhook server.
pub(super) struct WebhookListener {
    listener: TcpListener,
    tls: ServerTls,
    shared: Arc<Shared>,
    open: Vec<(AbortHandle, Activity)>,
    warnings: LogThrottle,
}

impl WebhookListener {
    pub(super) fn new(listener: TcpListener, tls: ServerTls, shared: Arc<Shared>) -> Self {
        WebhookListener { listener, tls, shared, open: Vec::new(), warnings: LogThrottle::new(LOG_INTERVAL) }
    }

    /// Makes room for another connection. Returns whether there is some.
    fn make_room(&mut self) -> bool {
        if self.open.len() < CONNECTIONS {
            return true;
        }
        self.open.retain(|(task, _)| !task.is_finished());
        if self.open.len() < CONNECTIONS {
            return true;
        }
        if let Some(unlogged) = self.warnings.admit(Instant::now()) {
            tracing::warn!(
                limit = CONNECTIONS,
                unlogged,
                "too many connections; closing the one that is idle for longest"
            );
        }
        let idle = self
            .open
            .iter()
            .enumerate()
            .filter_map(|(index, (_, activity))| activity.idle_since().map(|since| (since, index)));
        let Some((_, index)) = idle.min() else { return false };
        self.open.swap_remove(index).0.abort();
        true
    }
}

impl Listener for WebhookListener {
    type Stream = TcpStream;

    async fn next(&mut self) -> io::Result<ListenerEvent<TcpStream>> {
        let (stream, peer) = self.listener.accept().await?;
        Ok(ListenerEvent::Connection(stream, peer))
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, connections: &mut JoinSet<()>, shutdown: &ShutdownSignal) {
        if !self.make_room() {
            return;
        }
        // Answers are small, and written at once.
        if let Err(error) = stream.set_nodelay(true) {
            return tracing::debug!(%peer, %error, "connection failed before its handshake");
        }
        let activity = Activity::new();
        let (tls, shared, shutdown) = (self.tls.clone(), Arc::clone(&self.shared), shutdown.clone());
        let its_own = activity.clone();
        let task = connections.spawn(async move {
            if let Err(error) = serve(stream, &tls, shared, its_own, shutdown).await {
                tracing::debug!(%peer, error, "connection ended");
            }
        });
        self.open.push((task, activity));
    }

    /// Responses are no streams.
    fn close(self) -> impl FnMut() + Send {
        || {}
    }
}

/// Serves the requests of a connection, one after the other.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    tls: &ServerTls,
    shared: Arc<Shared>,
    activity: Activity,
    mut shutdown: ShutdownSignal,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::select! {
        biased;
        () = shutdown.requested() => return Ok(()),
        accepted = tls.accept(stream) => accepted?,
    };
    let service = service_fn(|request: Request<Incoming>| {
        let (shared, activity) = (Arc::clone(&shared), activity.clone());
        activity.begin();
        async move {
            let response = dispatch::answer(&shared, request).await;
            activity.end();
            Ok::<_, Infallible>(response)
        }
    });
    let stream = TokioIo::new(TrackedStream { stream, activity: activity.clone() });
    let mut builder = http1::Builder::new();
    // The activity has the timeouts: hyper's would end idle connections as well.
    builder.header_read_timeout(None).max_buf_size(HEAD_BYTES);
    tokio::select! {
        biased;
        ended = serve_connection(builder.serve_connection(stream, service), shutdown) => Ok(ended?),
        () = activity.expired() => Ok(()),
    }
}
