//! [`HealthServer`]: the sockets.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::respond::Site;
use super::{Diagnostics, Health, MetricsSource};

/// Where it listens unless told otherwise.
const ADDRESS: &str = "127.0.0.1:8081";
/// So many connections at once. One more takes the place of the oldest: those that ask get their answer soon, so the oldest is the one
/// that is least likely to ask for anything.
const CONNECTIONS: usize = 64;
/// How long a client may take for the head of its request.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may live, which is one request.
const LIFE: Duration = Duration::from_secs(30);
/// How large the head of a request may be.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long requests that are being answered may take when the server ends.
const DRAIN: Duration = Duration::from_secs(5);
/// How long to wait before accepting again after the system has run out of something.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How often it is said that there are too many connections.
const SAID: Duration = Duration::from_secs(60);
/// How often sources of metrics do their upkeep.
const UPKEEP: Duration = Duration::from_secs(5);

/// A server that tells of health, metrics and diagnostics. Dropping it ends it at once; [`shutdown`](Self::shutdown) lets
/// requests finish.
#[derive(Debug)]
#[must_use = "the server ends when this is dropped"]
pub struct HealthServer {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What a server shall tell, and where. See [`HealthServer::builder`].
#[must_use = "a builder does nothing until start is called"]
pub struct ServerBuilder {
    address: String,
    site: Site,
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
    /// The address cannot be listened on: another program does so already, or it is not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

impl HealthServer {
    /// Begins a server that tells of this health.
    pub fn builder(health: &Health) -> ServerBuilder {
        let site =
            Site { health: health.clone(), metrics: None, diagnostics: None, withholds_reasons: false, is_local: true };
        ServerBuilder { address: ADDRESS.to_owned(), site }
    }

    /// Where it listens; `None` if it is off.
    pub fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(|running| running.address)
    }

    /// Accepts nothing more, lets requests finish, for five seconds at most, and returns when every socket is closed.
    pub async fn shutdown(mut self) {
        if let Some(running) = self.running.as_mut() {
            running.stop.send_replace(true);
            // An error means that the task is gone, which is what is asked for.
            let _ = (&mut running.task).await;
        }
    }
}

impl Drop for HealthServer {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.task.abort();
        }
    }
}

impl ServerBuilder {
    /// Where to listen: `127.0.0.1:8081` unless told otherwise.
    ///
    /// A host and a port; `:8081` is every address of the machine, which is what a kubelet needs that asks a pod; an empty
    /// address or `0` is nowhere; port 0 is one that is free.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Serves `/metrics`.
    pub fn metrics(mut self, metrics: impl MetricsSource) -> Self {
        self.site.metrics = Some(Box::new(metrics));
        self
    }

    /// Serves `/debug`. On a loopback address it is told only to those who asked for this machine by name or address.
    pub fn diagnostics(mut self, diagnostics: &Diagnostics) -> Self {
        self.site.diagnostics = Some(diagnostics.clone());
        self
    }

    /// Keeps the reasons of checks that fail out of the answers. They are in the log.
    pub fn withhold_reasons(mut self) -> Self {
        self.site.withholds_reasons = true;
        self
    }

    /// Listens, in a task of the runtime that this is awaited in.
    ///
    /// # Errors
    /// If the address is none, or cannot be listened on.
    pub async fn start(mut self) -> Result<HealthServer, StartError> {
        if matches!(&*self.address, "" | "0") {
            return Ok(HealthServer { running: None });
        }
        let listener = listen(&self.address).await?;
        let address =
            listener.local_addr().map_err(|source| StartError::Address { address: self.address.clone(), source })?;
        self.site.is_local = address.ip().is_loopback();
        if !self.site.is_local && self.site.diagnostics.is_some() {
            tracing::warn!(%address, "diagnostics are served to everybody who can reach this address");
        }
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(serve(listener, Arc::new(self.site), stopped));
        Ok(HealthServer { running: Some(Running { address, stop, task }) })
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn listen(given: &str) -> Result<TcpListener, StartError> {
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
            Ok(listener) => return Ok(listener),
            // A port that is taken is taken, whichever other address would be free.
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                return Err(StartError::Listen { address, source });
            }
            Err(source) => failure = StartError::Listen { address, source },
        }
    }
    Err(failure)
}

/// Accepts until told to stop. It owns the tasks of all connections, so that ending it ends everything.
async fn serve(listener: TcpListener, site: Arc<Site>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    let mut said: Option<Instant> = None;
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = told_to_stop(&mut stopped) => break,
            Some(_) = connections.join_next() => {}
            _ = upkeep.tick(), if site.metrics.is_some() => {
                if let Some(metrics) = &site.metrics {
                    // It is not ours. If it fails, those who ask about health are still answered.
                    if catch_unwind(AssertUnwindSafe(|| metrics.upkeep())).is_err() {
                        tracing::error!("the upkeep of a source of metrics has panicked");
                    }
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    open.retain(|connection| !connection.is_finished());
                    if open.len() >= CONNECTIONS
                        && let Some(oldest) = open.pop_front()
                    {
                        oldest.abort();
                        if said.is_none_or(|said| said.elapsed() >= SAID) {
                            said = Some(Instant::now());
                            tracing::warn!(%peer, limit = CONNECTIONS, "too many connections: the oldest are closed");
                        }
                    }
                    let (site, stopped) = (Arc::clone(&site), stopped.clone());
                    open.push_back(connections.spawn(async move {
                        match timeout(LIFE, connection(stream, site, stopped)).await {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => tracing::debug!(%peer, %error, "connection ended"),
                            Err(_) => tracing::debug!(%peer, "a request took too long; the connection was closed"),
                        }
                    }));
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
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

/// Returns when the server is to stop, or its handle is gone.
async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Serves one request. Probes and scrapes come seconds apart: a connection that is kept for the next one gains nothing, and
/// one that is not can be given a time to live.
async fn connection(
    stream: TcpStream,
    site: Arc<Site>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.respond(request.method(), request.uri(), request.headers()).await) }
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
