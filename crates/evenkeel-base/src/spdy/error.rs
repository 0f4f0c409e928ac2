//! [`SpdyError`]: how a connection or a stream failed.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::HeaderBlockError;
use crate::channels::ChannelError;

/// How a SPDY connection or one of its streams failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpdyError {
    /// The WebSocket failed.
    #[error(transparent)]
    Connection(#[from] ChannelError),
    /// The peer uses another version of SPDY.
    #[error("the peer sent a frame of SPDY version {version}; only version 3 is supported")]
    Version {
        /// The version.
        version: u16,
    },
    /// A control frame has a wrong length.
    #[error("the peer sent a {frame} frame of {length} bytes")]
    FrameLength {
        /// The type of the frame.
        frame: &'static str,
        /// Its length.
        length: usize,
    },
    /// A header block is not valid.
    #[error("the peer sent an invalid header block")]
    Headers(#[from] HeaderBlockError),
    /// The peer causes responses faster than it reads them.
    #[error("more than {limit} responses to the peer wait to be sent")]
    Flood {
        /// The limit.
        limit: usize,
    },
    /// The peer reset the stream.
    #[error("the peer reset the stream: {0}")]
    Reset(ResetStatus),
    /// The peer closed the connection before the stream ended.
    #[error("the peer closed the connection before the end of the stream")]
    Closed,
    /// The connection accepts no new streams.
    #[error("the connection accepts no new streams; open another connection")]
    GoneAway,
    /// The session was dropped on this side.
    #[error("the session was closed")]
    Cancelled,
}

/// The reason of a reset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResetStatus(pub(super) u32);

impl ResetStatus {
    /// The peer violated the protocol.
    pub(super) const PROTOCOL_ERROR: ResetStatus = ResetStatus(1);
    /// The stream was refused before it was processed.
    pub const REFUSED_STREAM: ResetStatus = ResetStatus(3);
    /// The stream is no longer needed.
    pub const CANCEL: ResetStatus = ResetStatus(5);
}

impl fmt::Display for ResetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "protocol error",
            2 => "invalid stream",
            3 => "refused stream",
            4 => "unsupported version",
            5 => "cancelled",
            6 => "internal error",
            7 => "flow control error",
            8 => "stream in use",
            9 => "stream already closed",
            11 => "frame too large",
            other => return write!(f, "status {other}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for ResetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResetStatus({}: {self})", self.0)
    }
}

impl SpdyError {
    fn kind(&self) -> io::ErrorKind {
        match self {
            SpdyError::Connection(error) => error.kind(),
            SpdyError::Version { .. }
            | SpdyError::FrameLength { .. }
            | SpdyError::Headers(_)
            | SpdyError::Flood { .. } => io::ErrorKind::InvalidData,
            SpdyError::Reset(_) => io::ErrorKind::ConnectionReset,
            SpdyError::Closed => io::ErrorKind::UnexpectedEof,
            SpdyError::GoneAway | SpdyError::Cancelled => io::ErrorKind::NotConnected,
        }
    }

    /// Returns the error of a read or a write.
    pub(super) fn to_io(self: &Arc<Self>) -> io::Error {
        io::Error::new(self.kind(), Arc::clone(self))
    }
}
