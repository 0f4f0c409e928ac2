//! SPDY/3.1 through a WebSocket, as Kubernetes uses it for port-forward.
//!
//! ```text
//! SpdyStream ──► control frames, outbox ──┐                          ┌──► inbound buffer ──► SpdyStream
//! SpdyStream ──► control frames, outbox ──┼── driver ── WebSocket ───┤
//!                                         │      (one task)          └──► inbound buffer ──► SpdyStream
//! ```
//!
//! The binary messages of the WebSocket are one byte stream, which carries the frames. `frame` and `headers` encode and decode,
//! `state` is the protocol without I/O, `driver` connects it to a socket, and `stream` has the handles. Client and server use the
//! same code.
//!
//! The peers of Kubernetes (Go's spdystream) send no SETTINGS and have no flow control: WINDOW_UPDATE frames are ignored, by
//! them and here. A stopped reader therefore stops the whole connection, once its buffer is full.
//!
//! # Guarantees
//!
//! - Memory is bounded: an unread stream buffers [`INBOUND_LIMIT`] bytes and one message, all streams together
//!   [`SESSION_INBOUND_LIMIT`]. Then the driver stops reading the socket, so that the peer has to wait. Writers wait while
//!   the outbox has [`OUTBOX_LIMIT`] bytes. A connection has at most [`MAX_STREAMS`] streams; the peer's others are refused.
//! - A stream that is dropped does not stop the others: its data is discarded.
//! - A stream ends without an error only if the peer ended it.
//! - The client sends a PING every 10 s, unless the last one has no response yet. Nothing else waits for the response: a Go
//!   peer does not send it while one of its streams is not read.
//! - Dropping the [`SpdySession`] closes the connection. All streams fail from then on.
//!
//! Not guaranteed: progress of one stream while another one is not read.

mod dictionary;
mod driver;
mod error;
mod frame;
mod headers;
mod inbound;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod tunnel;

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};

use self::driver::drive;
pub use self::error::{ResetStatus, SpdyError};
pub use self::headers::{HeaderBlockError, StreamHeaders};
use self::state::SpdyState;
pub use self::stream::SpdyStream;
use crate::channels::Role;

/// The bytes that an unread stream buffers before the driver stops reading the socket.
pub const INBOUND_LIMIT: usize = 256 * 1024;
/// The bytes that all unread streams of a connection buffer together.
pub const SESSION_INBOUND_LIMIT: usize = 4 * 1024 * 1024;
/// The bytes that wait for the socket before writers wait.
pub const OUTBOX_LIMIT: usize = 256 * 1024;
/// The most streams of a connection.
pub const MAX_STREAMS: usize = 1024;
/// The largest payload of a DATA frame that is sent.
const CHUNK: usize = 64 * 1024;

/// A SPDY connection. Dropping it closes the connection.
#[must_use = "dropping the session closes the connection"]
pub struct SpdySession {
    shared: Arc<Shared>,
}

/// The state that the driver and the handles share.
struct Shared(Mutex<SpdyState>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SpdyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpdySession {
    /// Returns a session over an upgraded connection, and the future that drives it. Nothing is sent or received unless the
    /// future is polled. It completes when the connection has ended; dropping it aborts the connection.
    pub fn new<S>(io: S, role: Role) -> (SpdySession, impl Future<Output = ()> + Send + use<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared(Mutex::new(SpdyState::new(role))));
        (SpdySession { shared: Arc::clone(&shared) }, drive(io, role, shared))
    }

    /// Opens a stream, without waiting for the peer. Waits while [`MAX_STREAMS`] are open.
    ///
    /// # Errors
    /// Returns an error if the connection has ended, or accepts no new streams.
    pub async fn open(&self, headers: StreamHeaders) -> Result<SpdyStream, Arc<SpdyError>> {
        let id = poll_fn(|context| self.shared.lock().poll_open(&headers, context)).await?;
        Ok(SpdyStream::new(self, id, headers))
    }

    /// Returns the next stream that the peer opened; `None` when it opens no more. Cancel safe.
    pub async fn accept(&self) -> Option<SpdyStream> {
        let (id, headers) = poll_fn(|context| self.shared.lock().poll_accept(context)).await?;
        Some(SpdyStream::new(self, id, headers))
    }

    /// Whether streams can be opened, and no unread stream stops the connection.
    pub fn is_available(&self) -> bool {
        self.shared.lock().is_available()
    }

    /// Sends what is queued, then closes the connection with code 1000.
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// Waits until the connection has ended. An error means that data may be missing.
    pub async fn ended(&self) -> Result<(), Arc<SpdyError>> {
        poll_fn(|context| self.shared.lock().poll_ended(context)).await
    }
}

impl fmt::Debug for SpdySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state has the data of the streams.
        f.write_str("SpdySession")
    }
}

impl Drop for SpdySession {
    fn drop(&mut self) {
        self.shared.lock().cancel();
    }
}
