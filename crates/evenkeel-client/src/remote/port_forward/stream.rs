//! [`PortStream`]: a connection to a port of a pod.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel_base::channels::BoxIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::OpenedPort;
use crate::rest::escaped;

/// The longest error message that is kept.
const MAX_MESSAGE: usize = 4096;

/// A connection to a port of a pod: `AsyncRead` and `AsyncWrite`. Dropping it closes the connection.
///
/// - The end of the data is the end that the pod sent. A lost connection is an error, never an end.
/// - If the server reports an error of the port, reads and writes fail with an [`io::Error`] that contains a
///   [`PortForwardError`]. Data that was received before is read first.
/// - `shutdown` ends the data for the pod, and reads continue. Servers with the older protocol cannot transmit it
///   ([`has_half_close`](Self::has_half_close)): `shutdown` succeeds there too, but the pod does not see it.
/// - Memory is bounded: if the stream is not read, the client stops reading the connection, and the server has to wait.
pub struct PortStream {
    data: BoxIo,
    error: Box<dyn AsyncRead + Send + Unpin>,
    /// What was received of the error message.
    message: Vec<u8>,
    half_close: bool,
    pod: Arc<str>,
    port: u16,
}

/// The error of a forwarded port, from the server: no process listens on the port, or the pod has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port {port} of pod {pod} is not reachable: {message}")]
#[non_exhaustive]
pub struct PortForwardError {
    /// Namespace and name of the pod.
    pub pod: String,
    /// The port.
    pub port: u16,
    /// The server's message.
    pub message: String,
}

impl PortForwardError {
    /// Returns the error of a port in the error of a read or a write of a [`PortStream`].
    pub fn in_io(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl PortStream {
    pub(super) fn new(opened: OpenedPort, pod: Arc<str>, port: u16) -> Self {
        let OpenedPort { data, error, half_close } = opened;
        PortStream { data, error, message: Vec::new(), half_close, pod, port }
    }

    /// Returns the port of the pod.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the pod sees the end of the data after `shutdown`.
    pub fn has_half_close(&self) -> bool {
        self.half_close
    }

    /// Returns the error of the port, if the server has sent one.
    fn reported(&mut self, context: &mut Context<'_>) -> Option<io::Error> {
        let mut space = [0; 512];
        loop {
            let mut received = ReadBuf::new(&mut space);
            // The message is complete if the data has ended, so nothing has to be waited for.
            let Poll::Ready(Ok(())) = Pin::new(&mut self.error).poll_read(context, &mut received) else { break };
            let received = received.filled();
            if received.is_empty() {
                break;
            }
            let room = MAX_MESSAGE.saturating_sub(self.message.len());
            self.message.extend_from_slice(received.get(..room).unwrap_or(received));
        }
        if self.message.is_empty() {
            return None;
        }
        let message = escaped(&self.message, MAX_MESSAGE);
        let error = PortForwardError { pod: self.pod.to_string(), port: self.port, message };
        Some(io::Error::new(io::ErrorKind::ConnectionAborted, error))
    }
}

impl AsyncRead for PortStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut this.data).poll_read(context, into));
        if read.is_ok() && into.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(this.reported(context).map_or(read, Err))
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.data).poll_write(context, bytes));
        Poll::Ready(written.map_err(|error| this.reported(context).unwrap_or(error)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.data).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.data).poll_shutdown(context)
    }
}

impl fmt::Debug for PortStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortStream").field("pod", &self.pod).field("port", &self.port).finish_non_exhaustive()
    }
}
