//! [`Dial`]: making one connection to the server, and the plain TCP way of doing it.
//!
//! What protects a connection (TLS) or leads it around a corner (a proxy) is built on [`tcp_connect`] and hides behind the
//! same trait, so that whoever needs a connection, the pool or an upgrade, gets it the same way.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Lane;
use super::error::{TransportError, TransportFault};
use crate::config::{Connections, HttpVersions, ServerUrl};

/// How long one address may take before the next one is tried beside it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Bytes in and out.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Bytes in and out, whatever carries them.
pub(crate) type BoxIo = Box<dyn Io>;

/// A connection that is there, and what is to be spoken on it.
pub(crate) struct Dialed {
    /// The connection.
    pub(crate) io: BoxIo,
    /// Whether HTTP/2 was agreed on; HTTP/1.1 otherwise.
    pub(crate) http2: bool,
}

/// What [`Dial::dial`] answers with.
pub(crate) type Dialing = Pin<Box<dyn Future<Output = Result<Dialed, TransportError>> + Send>>;

/// Makes connections to one server.
///
/// The future is polled inside a tokio runtime. It ends by itself, in bounded time, and dropping it leaves nothing behind.
pub(crate) trait Dial: Send + Sync {
    /// Makes a connection.
    fn dial(&self, lane: Lane) -> Dialing;
}

impl fmt::Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("http2", &self.http2).finish_non_exhaustive()
    }
}

/// Plain TCP. HTTP/2 is spoken only if nothing else may be: without TLS there is no way to ask.
#[derive(Clone, Debug)]
pub(crate) struct TcpDial {
    host: String,
    port: u16,
    connections: Connections,
}

impl TcpDial {
    /// Connections straight to this server.
    pub(crate) fn new(server: &ServerUrl, connections: &Connections) -> Self {
        TcpDial { host: server.host().to_owned(), port: server.port(), connections: connections.clone() }
    }
}

impl Dial for TcpDial {
    fn dial(&self, _: Lane) -> Dialing {
        let this = self.clone();
        Box::pin(async move {
            let stream = tcp_connect(&this.host, this.port, &this.connections).await?;
            Ok(Dialed { io: Box::new(stream), http2: this.connections.http == HttpVersions::Http2Only })
        })
    }
}

/// Connects to a host by name or address: all its addresses are tried in turn, the next one as soon as one fails or
/// takes longer than a quarter of a second, and the first that answers wins. The whole, name resolution included, takes
/// no longer than [`Connections::connect_timeout`].
pub(crate) async fn tcp_connect(host: &str, port: u16, connections: &Connections) -> Result<TcpStream, TransportError> {
    let attempt = async {
        let addresses = tokio::net::lookup_host((host, port))
            .await
            .map_err(|error| TransportError::new(TransportFault::Resolve, host, error))?;
        let stream = first_to_answer(addresses).await.map_err(|error| {
            error.map_or_else(
                || TransportError::bare(TransportFault::Resolve, host),
                |error| TransportError::new(connect_fault(&error), host, error),
            )
        })?;
        tune(&stream, connections).map_err(|error| TransportError::new(TransportFault::Connect, host, error))?;
        Ok(stream)
    };
    match tokio::time::timeout(connections.connect_timeout, attempt).await {
        Ok(result) => result,
        Err(_) => Err(TransportError::bare(TransportFault::ConnectTimeout, host)),
    }
}

/// The first address that answers, or the first failure; `None` if there is no address at all.
async fn first_to_answer(addresses: impl Iterator<Item = SocketAddr>) -> Result<TcpStream, Option<io::Error>> {
    let mut addresses = addresses.peekable();
    let mut attempts = JoinSet::new();
    let mut first_failure = None;
    while let Some(address) = addresses.next() {
        attempts.spawn(TcpStream::connect(address));
        // The last one is waited for without end; the caller's clock is ticking.
        let patience = if addresses.peek().is_some() { NEXT_ADDRESS_AFTER } else { Duration::MAX };
        while let Ok(Some(ended)) = tokio::time::timeout(patience, attempts.join_next()).await {
            match ended.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(stream) => return Ok(stream),
                Err(error) => first_failure.get_or_insert(error),
            };
            if addresses.peek().is_some() {
                break;
            }
        }
    }
    Err(first_failure)
}

fn connect_fault(error: &io::Error) -> TransportFault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => TransportFault::Refused,
        io::ErrorKind::TimedOut => TransportFault::ConnectTimeout,
        _ => TransportFault::Connect,
    }
}

/// No delay for small writes, and a kernel that notices when the other side is gone.
fn tune(stream: &TcpStream, connections: &Connections) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    if !connections.tcp_keepalive.is_zero() {
        let keepalive =
            TcpKeepalive::new().with_time(connections.tcp_keepalive).with_interval(connections.tcp_keepalive);
        socket.set_tcp_keepalive(&keepalive)?;
        // Keepalive only speaks up when nothing is on its way. What was sent and is never acknowledged would otherwise be
        // repeated for a quarter of an hour.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(connections.tcp_keepalive + connections.ping_timeout))?;
    }
    Ok(())
}
