//! The channels of exec, attach and port-forward over a WebSocket.
//!
//! ```text
//! ChannelWriter ──► outbox ──┐                          ┌──► inbound buffer ──► ChannelReader
//! ChannelWriter ──► outbox ──┼── driver ── WebSocket ───┤
//!                            │      (one task)          └──► inbound buffer ──► ChannelReader
//! ```
//!
//! Every binary message starts with the id of its channel. `state` is the protocol without I/O: it decodes messages,
//! buffers them, and queues what is sent. `driver` connects it to a socket; `io` has the handles; `handshake` checks the
//! headers of the upgrade. Client and server use the same code.
//!
//! # Guarantees
//!
//! - Memory is bounded: an unread channel buffers [`INBOUND_LIMIT`] bytes and one message. Then the driver stops reading the
//!   socket, so that the peer has to wait. A reader takes the whole buffer, so that it has as much again while it is stopped.
//!   Writers wait while the outbox has [`OUTBOX_LIMIT`] bytes.
//! - A reader that is dropped does not stop the others: its data is discarded.
//! - A channel ends without an error only if the peer closed it, or closed the connection with code 1000.
//! - Dropping the [`Session`] closes the connection. All handles fail from then on.

mod driver;
mod error;
mod handshake;
mod io;
mod state;
#[cfg(test)]
mod tests;
mod upgraded;

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::driver::Role;
use self::driver::drive;
#[cfg(feature = "spdy")]
pub(crate) use self::driver::{channel_error, close_result};
pub use self::error::ChannelError;
pub use self::handshake::{ClientHandshake, HandshakeError, Refusal, ServerHandshake};
pub use self::io::{ChannelReader, ChannelWriter};
use self::state::SessionState;
pub use self::upgraded::{BoxIo, UpgradedIo};

/// The channel of standard input, from the client.
pub const STDIN: u8 = 0;
/// The channel of standard output, from the server.
pub const STDOUT: u8 = 1;
/// The channel of standard error, from the server.
pub const STDERR: u8 = 2;
/// The channel of the final status, from the server.
pub const ERROR: u8 = 3;
/// The channel of terminal sizes, from the client.
pub const RESIZE: u8 = 4;
/// The id of a message that closes the channel in its second byte.
const CLOSE: u8 = 255;

/// The bytes that an unread channel buffers before the driver stops reading the socket.
pub const INBOUND_LIMIT: usize = 256 * 1024;
/// The bytes that wait for the socket before writers wait.
pub const OUTBOX_LIMIT: usize = 128 * 1024;
/// The largest payload of a message that is sent, as in client-go.
pub const CHUNK: usize = 32 * 1024;
/// The largest message that is received.
pub const MAX_MESSAGE: usize = 1024 * 1024;

/// A subprotocol of exec and attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelProtocol {
    /// `v4.channel.k8s.io`: a channel cannot be closed alone.
    V4,
    /// `v5.channel.k8s.io`: adds the message that closes one channel.
    V5,
}

impl ChannelProtocol {
    /// The subprotocols in the order of preference.
    pub const NAMES: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

    /// Returns the subprotocol of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "v5.channel.k8s.io" => Some(ChannelProtocol::V5),
            "v4.channel.k8s.io" => Some(ChannelProtocol::V4),
            _ => None,
        }
    }
}

/// The settings of a [`Session`].
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The side of the connection. Only the client sends pings and closes single channels.
    pub role: Role,
    /// The negotiated subprotocol.
    pub protocol: ChannelProtocol,
    /// The channels that are read.
    pub inbound: Vec<u8>,
    /// The channels that are written.
    pub outbound: Vec<u8>,
}

/// The channels of one connection. Dropping it closes the connection.
#[derive(Debug)]
#[must_use = "dropping the session closes the connection"]
pub struct Session {
    shared: Arc<Shared>,
}

/// The state that the driver and the handles share.
#[derive(Debug)]
struct Shared(Mutex<SessionState>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Returns a session over an upgraded connection, and the future that drives it. Nothing is sent or received unless the
    /// future is polled. It completes when the connection has ended; dropping it aborts the connection.
    pub fn new<S>(io: S, settings: &SessionSettings) -> (Session, impl Future<Output = ()> + Send + use<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared(Mutex::new(SessionState::new(settings))));
        (Session { shared: Arc::clone(&shared) }, drive(io, settings.role, shared))
    }

    /// Returns the reader of an inbound channel. A channel has one reader; a second one competes for the data.
    pub fn reader(&self, channel: u8) -> ChannelReader {
        ChannelReader::new(Arc::clone(&self.shared), channel)
    }

    /// Returns the writer of an outbound channel. Dropping it closes the channel, if the protocol can.
    pub fn writer(&self, channel: u8) -> ChannelWriter {
        ChannelWriter::new(Arc::clone(&self.shared), channel)
    }

    /// Queues a message without waiting. It replaces a queued message of the same channel, so that the queue is bounded.
    pub fn send_latest(&self, channel: u8, payload: &[u8]) {
        self.shared.lock().send_latest(channel, payload);
    }

    /// Sends what is queued, then closes the connection with code 1000.
    pub fn close(&self) {
        self.shared.lock().close();
    }

    /// Waits until the connection has ended. An error means that data may be missing.
    pub async fn ended(&self) -> Result<(), Arc<ChannelError>> {
        poll_fn(|context| self.shared.lock().poll_ended(context)).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.lock().cancel();
    }
}
