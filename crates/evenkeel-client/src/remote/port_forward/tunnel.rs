//! [`Tunnel`]: streams to all ports of a pod on one connection, with SPDY/3.1 in a WebSocket.
//!
//! Every stream to a port is a pair of SPDY streams: the error message of the server, and the data in both directions. Their
//! headers name the port and the pair.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_base::channels::{BoxIo, Role};
use evenkeel_base::spdy::{SpdyError, SpdySession, SpdyStream, StreamHeaders};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::transport::OpenedPort;
use crate::remote::SessionError;

/// The longest time for the server's reply to a new stream, as in client-go.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that carries the streams of many ports. It ends when it and all its streams are dropped.
pub(super) struct Tunnel {
    session: SpdySession,
    /// The number of the next pair.
    next_pair: AtomicU32,
}

impl Tunnel {
    pub(super) fn start(io: BoxIo) -> Arc<Self> {
        let (session, driver) = SpdySession::new(io, Role::Client);
        tokio::spawn(driver);
        Arc::new(Tunnel { session, next_pair: AtomicU32::new(0) })
    }

    /// Whether new streams can be opened and would not wait for one that is not read.
    pub(super) fn is_available(&self) -> bool {
        self.session.is_available()
    }

    /// Opens a stream to a port, and waits for the reply of the server.
    pub(super) async fn open(self: &Arc<Self>, port: u16) -> Result<OpenedPort, SessionError> {
        let opening = timeout(REPLY_TIMEOUT, self.open_pair(port)).await;
        let (error, data) = match opening {
            Ok(opened) => opened.map_err(SessionError::Tunnel)?,
            Err(_) => return Err(SessionError::ReplyTimeout { limit: REPLY_TIMEOUT }),
        };
        let stream = |stream| Box::new(TunnelStream { stream, _tunnel: Arc::clone(self) });
        Ok(OpenedPort { data: stream(data), error: stream(error), half_close: true })
    }

    async fn open_pair(&self, port: u16) -> Result<(SpdyStream, SpdyStream), Arc<SpdyError>> {
        let (port, pair) = (port.to_string(), self.next_pair.fetch_add(1, Ordering::Relaxed).to_string());
        let headers = |kind| StreamHeaders::from([("streamType", kind), ("port", &*port), ("requestID", &*pair)]);
        let mut error = self.session.open(headers("error")).await?;
        // The client sends no errors. If the connection has ended, the next call returns the reason.
        let _ = error.shutdown().await;
        let data = self.session.open(headers("data")).await?;
        error.accepted().await?;
        data.accepted().await?;
        Ok((error, data))
    }
}

/// A stream of a tunnel. It keeps the tunnel open.
struct TunnelStream {
    stream: SpdyStream,
    _tunnel: Arc<Tunnel>,
}

impl AsyncRead for TunnelStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
