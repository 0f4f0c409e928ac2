//! [`SessionError`]: why a session could not be opened, or failed.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::channels::{ChannelError, HandshakeError};
use evenkeel_base::spdy::SpdyError;
use evenkeel_core::ExitStatusError;
use http::StatusCode;

use super::{CopyError, DebugError};

/// Why a session could not be opened, or failed. A server that refuses the request is an
/// [`Error::Api`](crate::Error::Api) instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The server responded without an error, but did not upgrade the connection.
    #[error("the server responded with {code} instead of upgrading the connection")]
    NotUpgraded {
        /// The status code.
        code: StatusCode,
    },
    /// The server upgraded the connection to something else.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The client's service or one of its layers does not pass upgraded connections on.
    #[error("the client's transport does not support upgraded connections")]
    NoConnection,
    /// The connection ended without the status of the process.
    #[error("the connection ended without the status of the process")]
    NoStatus,
    /// The connection failed.
    #[error("{0}")]
    Channel(Arc<ChannelError>),
    /// The tunnel of forwarded ports failed.
    #[error("{0}")]
    Tunnel(Arc<SpdyError>),
    /// The server did not reply to a new stream.
    #[error("the server did not accept the stream within {limit:?}")]
    ReplyTimeout {
        /// The timeout.
        limit: Duration,
    },
    /// The server could not run the process, or its status is not valid.
    #[error(transparent)]
    Process(#[from] ExitStatusError),
    /// A copy failed.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A debug container did not start.
    #[error(transparent)]
    Debug(#[from] DebugError),
}
