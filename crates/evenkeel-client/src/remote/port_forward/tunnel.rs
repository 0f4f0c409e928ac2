//! [`Tunnel`]: a connection for streams to ports, with SPDY/3.1 in a WebSocket.
//!
//! Every stream to a port is a pair of SPDY streams: the error message of the server, and the data in both directions. Their
//! headers name the port and the pair.
//!
//! A tunnel carries one stream at a time, and is reused after a stream that the pod has ended. SPDY could carry many at a time,
//! but one that is not read would stop the others, and a Go server goes on sending after a reset.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
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

/// The most tunnels that wait for another stream.
const MAX_IDLE: usize = 8;

/// The tunnels that wait for another stream.
#[derive(Default)]
pub(super) struct IdleTunnels(Mutex<Vec<Arc<Tunnel>>>);

impl IdleTunnels {
    /// Takes a tunnel that is open.
    pub(super) fn take(&self) -> Option<Arc<Tunnel>> {
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| tunnels.pop()).find(|tunnel| tunnel.session.is_available())
    }

    pub(super) fn add(&self, tunnel: Arc<Tunnel>) {
        let mut tunnels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tunnels.retain(|tunnel| tunnel.session.is_available());
        if tunnels.len() < MAX_IDLE {
            tunnels.push(tunnel);
        }
    }
}

/// A connection that carries streams, one after the other.
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

    /// Opens a stream to a port, and waits for the reply of the server. The tunnel becomes idle when the pod has ended the
    /// stream, and is closed if the stream is dropped before.
    pub(super) async fn open(self: Arc<Self>, port: u16, idle: &Arc<IdleTunnels>) -> Result<OpenedPort, SessionError> {
        let opening = timeout(REPLY_TIMEOUT, self.open_pair(port)).await;
        let (error, data) = match opening {
            Ok(opened) => opened.map_err(SessionError::Tunnel)?,
            Err(_) => return Err(SessionError::ReplyTimeout { limit: REPLY_TIMEOUT }),
        };
        let data = TunnelStream { stream: data, tunnel: self, idle: Arc::downgrade(idle) };
        Ok(OpenedPort { data: Box::new(data), error: Box::new(error), half_close: true })
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

/// The data of a stream, and the tunnel that carries it.
struct TunnelStream {
    stream: SpdyStream,
    tunnel: Arc<Tunnel>,
    /// Gone if nothing can open another stream.
    idle: Weak<IdleTunnels>,
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        if self.stream.has_peer_ended()
            && let Some(idle) = self.idle.upgrade()
        {
            idle.add(Arc::clone(&self.tunnel));
        }
    }
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
