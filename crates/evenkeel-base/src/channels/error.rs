//! [`ChannelError`]: how a connection with channels ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How a connection with channels ended, unless the peer closed it with code 1000.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The peer sent a text message.
    #[error("the peer sent a text message; all messages are binary")]
    Text,
    /// The peer sent a message without a channel.
    #[error("the peer sent an empty message")]
    Empty,
    /// The peer sent a message that is too large.
    #[error("the peer sent a message of more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The peer closed the connection with another code than 1000.
    #[error("the peer closed the connection with code {code}: {reason:?}")]
    Closed {
        /// The code; 1005 if there was none.
        code: u16,
        /// The reason that the peer gave.
        reason: String,
    },
    /// The connection ended without a close message.
    #[error("the connection was lost")]
    Lost(#[source] Option<io::Error>),
    /// The peer answered no ping.
    #[error("no response to a ping within {limit:?}")]
    PingTimeout {
        /// The timeout.
        limit: Duration,
    },
    /// The peer did not read.
    #[error("a message could not be sent within {limit:?}")]
    WriteTimeout {
        /// The timeout.
        limit: Duration,
    },
    /// The peer violated the WebSocket protocol.
    #[error("the peer violated the WebSocket protocol: {problem}")]
    Protocol {
        /// What is wrong.
        problem: String,
    },
    /// The session was dropped on this side.
    #[error("the session was closed")]
    Cancelled,
}

impl ChannelError {
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            ChannelError::Text
            | ChannelError::Empty
            | ChannelError::TooLarge { .. }
            | ChannelError::Protocol { .. } => io::ErrorKind::InvalidData,
            ChannelError::Closed { .. } => io::ErrorKind::ConnectionAborted,
            ChannelError::Lost(source) => source.as_ref().map_or(io::ErrorKind::UnexpectedEof, io::Error::kind),
            ChannelError::PingTimeout { .. } | ChannelError::WriteTimeout { .. } => io::ErrorKind::TimedOut,
            ChannelError::Cancelled => io::ErrorKind::NotConnected,
        }
    }

    /// Returns the error of a read or a write.
    pub(super) fn to_io(self: &Arc<Self>) -> io::Error {
        io::Error::new(self.kind(), Arc::clone(self))
    }
}
