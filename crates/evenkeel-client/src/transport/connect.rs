//! [`Dial`]: opens one connection to the server; [`tcp_connect`]: the TCP part of every connection.
//!
//! TLS and proxies are behind the trait, so that the pool and upgrades open connections the same way.

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
use tokio::time::Instant;

use super::Lane;
use super::error::{TransportError, TransportFault};
use crate::config::Connections;
use crate::rest::metrics;

/// How long one address may take before the next one is tried concurrently.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// A byte stream in both directions.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A boxed byte stream.
pub(crate) type BoxIo = Box<dyn Io>;

/// An established connection and its protocol.
pub(crate) struct Dialed {
    /// The connection.
    pub(crate) io: BoxIo,
    /// Whether HTTP/2 was negotiated; HTTP/1.1 otherwise.
    pub(crate) http2: bool,
}

/// The future of [`Dial::dial`].
pub(crate) type Dialing = Pin<Box<dyn Future<Output = Result<Dialed, TransportError>> + Send>>;

/// Opens connections to one server.
///
/// The future is polled inside a tokio runtime. It completes in bounded time, and dropping it leaks nothing.
pub(crate) trait Dial: Send + Sync {
    /// Opens a connection.
    fn dial(&self, lane: Lane) -> Dialing;
}

impl fmt::Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("http2", &self.http2).finish_non_exhaustive()
    }
}

/// Connects to a host by name or address. All addresses are tried in turn, the next one as soon as one fails or takes
/// longer than a quarter of a second; the first to connect wins. The whole, name resolution included, takes no longer
/// than [`Connections::connect_timeout`].
pub(crate) async fn tcp_connect(host: &str, port: u16, connections: &Connections) -> Result<TcpStream, TransportError> {
    let place = &*authority(host, port);
    in_time(place, connections.connect_timeout, async {
        let asked = Instant::now();
        let addresses = tokio::net::lookup_host((host, port)).await;
        metrics::resolved(host, asked.elapsed());
        let addresses = addresses.map_err(|error| TransportError::new(TransportFault::Resolve, host, error))?;
        let stream = first_to_answer(addresses, TcpStream::connect).await.map_err(|error| match error {
            Some(error) => TransportError::new(connect_fault(&error), place, error),
            None => TransportError::bare(TransportFault::Resolve, host),
        })?;
        tune(&stream, connections).map_err(|error| TransportError::new(TransportFault::Connect, place, error))?;
        Ok(stream)
    })
    .await
}

/// Formats host and port as in a URL: an IPv6 address in brackets.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Limits an attempt to connect in time.
async fn in_time<T>(
    place: &str,
    timeout: Duration,
    attempt: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    match tokio::time::timeout(timeout, attempt).await {
        Ok(result) => result,
        Err(_) => Err(TransportError::bare(TransportFault::ConnectTimeout, place)),
    }
}

/// Returns the first address that connects, or the first failure; `None` if there is no address.
async fn first_to_answer<S, F>(
    addresses: impl Iterator<Item = SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<S, Option<io::Error>>
where
    S: Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let mut addresses = addresses.peekable();
    let mut attempts = JoinSet::new();
    let mut first_failure = None;
    while let Some(address) = addresses.next() {
        attempts.spawn(connect(address));
        // The last one has no limit of its own; the caller's timeout applies.
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

/// Disables Nagle's algorithm and enables keepalive.
fn tune(stream: &TcpStream, connections: &Connections) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    if !connections.tcp_keepalive.is_zero() {
        let keepalive =
            TcpKeepalive::new().with_time(connections.tcp_keepalive).with_interval(connections.tcp_keepalive);
        socket.set_tcp_keepalive(&keepalive)?;
        // Keepalive probes only an idle connection. Without this, unacknowledged data would be retransmitted for a
        // quarter of an hour.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(connections.tcp_keepalive + connections.ping_timeout))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
