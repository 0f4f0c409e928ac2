//! The accept loop of an HTTP server, with graceful shutdown.
//!
//! ```text
//! ServerHandle::start ──► accept loop ──► Listener::next      a connection, or an order to close all
//!                              │     └──► Listener::admit     limits, spawns the connection's task
//!                              │                └──► serve_connection
//!       shutdown ──────────────┴────────► Listener::close, drain, abort
//! ```
//!
//! The server of a crate decides what differs: where connections come from, what happens above the connection limit, and
//! how a connection is served.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::log_throttle::LogThrottle;

/// The pause after `accept` failed for lack of a resource, such as file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// A lasting failure of `accept` is logged once per interval.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which a shutdown ends streaming responses while connections drain.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// The part of a server that the accept loop calls.
pub trait Listener: Send + 'static {
    /// An accepted connection.
    type Stream: Send;

    /// Waits for the next event. The accept loop drops and restarts the future at any time, so it must be cancel safe.
    ///
    /// After an error the accept loop pauses for 50 ms, unless the error concerns only the connection that failed.
    fn next(&mut self) -> impl Future<Output = io::Result<ListenerEvent<Self::Stream>>> + Send;

    /// Spawns the task of a connection in `connections`, or drops `stream` to refuse it. A task that is aborted closes its
    /// connection.
    fn admit(
        &mut self,
        stream: Self::Stream,
        peer: SocketAddr,
        connections: &mut JoinSet<()>,
        shutdown: &ShutdownSignal,
    );

    /// Closes the listening socket at shutdown. The accept loop calls the returned function every 10 ms while connections
    /// drain. It ends streaming responses: a request in flight may start one after the others have ended.
    fn close(self) -> impl FnMut() + Send;
}

/// An event of a [`Listener`].
#[derive(Debug)]
pub enum ListenerEvent<S> {
    /// A client has connected.
    Connection(S, SocketAddr),
    /// All open connections are to be closed, without grace.
    CloseConnections,
}

/// Completes when a server shuts down. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl ShutdownSignal {
    /// Returns a signal and its sender, which requests the shutdown by sending true or by being dropped.
    pub fn channel() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, ShutdownSignal(receiver))
    }

    /// Waits until the server shuts down or its handle is dropped.
    pub async fn requested(&mut self) {
        let _ = self.0.wait_for(|requested| *requested).await;
    }
}

/// A running server. Dropping it aborts the accept loop and with it all connections.
#[derive(Debug)]
#[must_use = "dropping the handle stops the server"]
pub struct ServerHandle {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl ServerHandle {
    /// Spawns the accept loop. At shutdown, requests in flight have `drain_timeout` to finish.
    pub fn start(address: SocketAddr, drain_timeout: Duration, listener: impl Listener) -> Self {
        let (stop, signal) = ShutdownSignal::channel();
        let task = tokio::spawn(accept_loop(address, drain_timeout, listener, signal));
        ServerHandle { address, stop, task }
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, drains connections, and returns when every socket is closed.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // An error means that the task has ended already.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections until shutdown. It owns the tasks of all connections, so ending it ends them.
async fn accept_loop<L: Listener>(
    address: SocketAddr,
    drain_timeout: Duration,
    mut listener: L,
    mut shutdown: ShutdownSignal,
) {
    let signal = shutdown.clone();
    let mut connections = JoinSet::new();
    let mut failures = LogThrottle::new(LOG_INTERVAL);
    loop {
        let event = tokio::select! {
            biased;
            () = shutdown.requested() => break,
            Some(_) = connections.join_next() => continue,
            event = listener.next() => event,
        };
        match event {
            Ok(ListenerEvent::Connection(stream, peer)) => listener.admit(stream, peer, &mut connections, &signal),
            Ok(ListenerEvent::CloseConnections) => connections.shutdown().await,
            Err(error) if is_connection_error(&error) => {
                tracing::debug!(%error, %address, "connection failed before it was accepted");
            }
            Err(error) => {
                if let Some(unlogged) = failures.admit(Instant::now()) {
                    tracing::warn!(%error, %address, unlogged, "cannot accept connections; retrying");
                }
                tokio::select! {
                    () = shutdown.requested() => break,
                    () = sleep(ACCEPT_RETRY) => {}
                }
            }
        }
    }
    let mut end_streams = listener.close();
    let drained = timeout(drain_timeout, async {
        loop {
            end_streams();
            if let Ok(None) = timeout(DRAIN_INTERVAL, connections.join_next()).await {
                return;
            }
        }
    });
    if drained.await.is_err() {
        connections.shutdown().await;
    }
}

/// Returns whether an error of `accept` concerns only the connection that would have been accepted.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}

/// Serves a connection to its end. At shutdown an idle connection closes at once, and another after its request in flight.
pub async fn serve_connection<C: GracefulConnection>(
    connection: C,
    mut shutdown: ShutdownSignal,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended,
        () = shutdown.requested() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

#[cfg(test)]
mod tests;
