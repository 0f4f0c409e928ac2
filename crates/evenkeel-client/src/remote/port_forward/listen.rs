//! [`ListenPorts`] and [`PortListener`]: local ports that are forwarded to a pod.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::PortForward;
use super::relay::{ForwardError, Relay};
use super::spec::{ForwardedPort, LocalAddress, PortSpecError};
use crate::error::Error;

/// The default limit of connections.
const MAX_CONNECTIONS: usize = 512;
/// The pause after `accept` failed for lack of a resource, such as file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A request to bind local ports and to forward their connections. Does nothing until it is awaited.
#[must_use = "no port is bound until it is awaited"]
pub struct ListenPorts {
    forward: PortForward,
    ports: Result<Vec<ForwardedPort>, PortSpecError>,
    addresses: Option<Vec<String>>,
    max_connections: usize,
    on_error: Arc<dyn Fn(&ForwardError) + Send + Sync>,
}

/// Local ports that are forwarded to a pod. Dropping it closes the ports and all their connections.
///
/// - It accepts any number of connections, up to [`ListenPorts::max_connections`] at a time. Further ones wait.
/// - It survives a lost connection to the API server: connections that were open fail, and new ones are forwarded as soon as
///   the server can be reached. A local connection waits up to 30 seconds for that. Attempts back off, and each may take 30
///   seconds.
/// - An error concerns one connection, which is closed. It is logged, and passed to [`ListenPorts::on_error`].
#[derive(Debug)]
#[must_use = "dropping the listener closes its ports"]
pub struct PortListener {
    bound: Vec<BoundPort>,
    failures: Vec<BindFailure>,
    /// One task per socket. Each owns the tasks of its connections.
    tasks: JoinSet<()>,
}

/// A forwarded port that was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoundPort {
    /// The local addresses. All have the same port, also if it was chosen by the system.
    pub local: Vec<SocketAddr>,
    /// The port of the pod.
    pub remote: u16,
}

/// A local address that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {local} for port {remote} of the pod: {source}")]
#[non_exhaustive]
pub struct BindFailure {
    /// The local address.
    pub local: SocketAddr,
    /// The port of the pod.
    pub remote: u16,
    /// The error of the system.
    pub source: io::Error,
}

/// Why no port is forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A port is invalid.
    #[error(transparent)]
    Port(#[from] PortSpecError),
    /// There is no port.
    #[error("no port to forward: name at least one")]
    NoPort,
    /// There is no address.
    #[error("no address to listen on: name at least one, or leave the default, localhost")]
    NoAddress,
    /// An address is neither an IP address nor `localhost`.
    #[error("{address:?} is no address to listen on: use an IP address or \"localhost\"")]
    Address {
        /// The address.
        address: String,
    },
    /// The pod does not exist, the server does not forward its ports, or it cannot be reached.
    #[error("cannot forward ports: {source}")]
    Connect {
        /// What happened.
        source: Error,
    },
    /// None of the ports could be bound.
    #[error("none of the ports can be listened on: {}", first(failures))]
    Bind {
        /// All addresses that could not be bound.
        failures: Vec<BindFailure>,
    },
}

fn first(failures: &[BindFailure]) -> String {
    failures.first().map(ToString::to_string).unwrap_or_default()
}

impl ListenPorts {
    pub(super) fn new(forward: PortForward, ports: Result<Vec<ForwardedPort>, PortSpecError>) -> Self {
        let on_error = Arc::new(|_: &ForwardError| ());
        ListenPorts { forward, ports, addresses: None, max_connections: MAX_CONNECTIONS, on_error }
    }

    /// Listens on these addresses, instead of `localhost`: IP addresses, or `localhost` for the loopback addresses of both
    /// families.
    ///
    /// A port is bound on all addresses or not at all, except that one family of `localhost` suffices. Other machines can
    /// reach the pod through an address that is not a loopback one.
    pub fn addresses<I>(mut self, addresses: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.addresses = Some(addresses.into_iter().map(Into::into).collect());
        self
    }

    /// Limits the number of connections that are open at a time; the default is 512. Further ones wait to be accepted.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Calls a function with the error of every connection that fails. It must not block.
    pub fn on_error(mut self, function: impl Fn(&ForwardError) + Send + Sync + 'static) -> Self {
        self.on_error = Arc::new(function);
        self
    }

    async fn bind(self) -> Result<PortListener, ListenError> {
        // The fields of a `ForwardedPort` are public.
        let checked = |port: ForwardedPort| ForwardedPort::try_from((port.local, port.remote));
        let ports = self.ports?.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = ports.first() else { return Err(ListenError::NoPort) };
        let texts = self.addresses.unwrap_or_else(|| vec!["localhost".to_owned()]);
        let addresses =
            LocalAddress::parse(&texts).map_err(|address| ListenError::Address { address: address.to_owned() })?;
        if addresses.is_empty() {
            return Err(ListenError::NoAddress);
        }
        let relay = Arc::new(Relay::new(self.forward, self.on_error));
        relay.reach(first.remote).await.map_err(|source| ListenError::Connect { source })?;
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let (mut bound, mut failures, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
        for ForwardedPort { local, remote } in ports {
            let Some(sockets) = bind_port(local, remote, &addresses, &mut failures).await else { continue };
            let local = sockets.iter().map(|(_, address)| *address).collect();
            bound.push(BoundPort { local, remote });
            for (socket, _) in sockets {
                tasks.spawn(accept(socket, remote, Arc::clone(&relay), Arc::clone(&permits)));
            }
        }
        for failure in &failures {
            tracing::warn!(pod = relay.pod(), error = %failure, "cannot listen on a local address");
        }
        if bound.is_empty() {
            return Err(ListenError::Bind { failures });
        }
        Ok(PortListener { bound, failures, tasks })
    }
}

/// Binds a port on all addresses. Returns `None` if it must not be forwarded.
async fn bind_port(
    mut local: u16,
    remote: u16,
    addresses: &[LocalAddress],
    failures: &mut Vec<BindFailure>,
) -> Option<Vec<(TcpListener, SocketAddr)>> {
    let mut sockets = Vec::new();
    let (mut localhost, mut is_complete) = (None, true);
    for LocalAddress { ip, is_localhost } in addresses {
        let wanted = SocketAddr::new(*ip, local);
        let socket = TcpListener::bind(wanted).await.and_then(|socket| Ok((socket.local_addr()?, socket)));
        let is_bound = socket.is_ok();
        match socket {
            Ok((address, socket)) => {
                // A port that the system chose is used for all addresses.
                local = address.port();
                sockets.push((socket, address));
            }
            Err(source) => failures.push(BindFailure { local: wanted, remote, source }),
        }
        if *is_localhost {
            localhost = Some(localhost.unwrap_or_default() || is_bound);
        } else {
            is_complete &= is_bound;
        }
    }
    (is_complete && localhost != Some(false)).then_some(sockets)
}

/// Accepts connections until it is dropped.
async fn accept(socket: TcpListener, remote: u16, relay: Arc<Relay>, permits: Arc<Semaphore>) {
    // Dropping it aborts all connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match socket.accept().await {
            Ok((local, peer)) => {
                while connections.try_join_next().is_some() {}
                let relay = Arc::clone(&relay);
                connections.spawn(async move {
                    let _permit = permit;
                    relay.forward(without_delay(local), peer, remote).await;
                });
            }
            Err(error) => {
                tracing::warn!(pod = relay.pod(), %error, "cannot accept a local connection; retrying");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Turns off the delay of small writes: the data was collected by the sender already.
fn without_delay(stream: TcpStream) -> TcpStream {
    // Only the latency depends on it.
    let _ = stream.set_nodelay(true);
    stream
}

impl IntoFuture for ListenPorts {
    type Output = Result<PortListener, ListenError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<PortListener, ListenError>> + Send>>;

    /// Connects to the server, then binds the ports. They accept connections when it returns.
    ///
    /// A pod that does not exist and a server that cannot be reached within 30 seconds are errors, without a retry.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.bind())
    }
}

impl fmt::Debug for ListenPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenPorts")
            .field("forward", &self.forward)
            .field("ports", &self.ports)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl PortListener {
    /// Returns the ports that are forwarded, in the order in which they were given.
    pub fn ports(&self) -> &[BoundPort] {
        &self.bound
    }

    /// Returns the addresses that could not be bound.
    pub fn failures(&self) -> &[BindFailure] {
        &self.failures
    }

    /// Closes the ports and all connections, and returns when they are closed.
    pub async fn close(mut self) {
        self.tasks.shutdown().await;
    }
}

impl BoundPort {
    /// Returns the local port.
    pub fn local_port(&self) -> u16 {
        self.local.first().map_or(0, SocketAddr::port)
    }
}
