//! [`Dial`]: making one connection to the server, and [`tcp_connect`], which all connections begin with.
//!
//! What protects a connection (TLS) or leads it around a corner (a proxy) hides behind the trait, so that whoever needs a
//! connection, the pool or an upgrade, gets it the same way.

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

/// Connects to a host by name or address: all its addresses are tried in turn, the next one as soon as one fails or
/// takes longer than a quarter of a second, and the first that answers wins. The whole, name resolution included, takes
/// no longer than [`Connections::connect_timeout`].
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

/// Host and port as they stand in a URL: an IPv6 address in brackets.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What an attempt to connect comes to, if it comes to anything in time.
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

/// The first address that answers, or the first failure; `None` if there is no address at all.
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

#[cfg(test)]
mod tests;
