//! [`MessageTunnel`]: a byte stream in the binary messages of a WebSocket.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{self, CloseFrame, WebSocketConfig};

use crate::channels::{ChannelError, MAX_MESSAGE, Role, channel_error, close_result};

/// The size of the socket's buffers.
const BUFFER: usize = 128 * 1024;

/// A byte stream in the binary messages of a WebSocket. The boundaries of messages have no meaning.
pub(super) struct MessageTunnel<S> {
    socket: WebSocketStream<S>,
    /// Whether the socket has data to flush.
    unflushed: bool,
    close_sent: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> MessageTunnel<S> {
    pub(super) async fn new(io: S, role: Role) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let side = match role {
            Role::Client => protocol::Role::Client,
            Role::Server => protocol::Role::Server,
        };
        let socket = WebSocketStream::from_raw_socket(io, side, Some(config)).await;
        MessageTunnel { socket, unflushed: false, close_sent: false }
    }

    /// Receives the next bytes; `None` when the peer closed the connection with code 1000.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ChannelError>>> {
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => Some(Ok(bytes)),
                Some(Ok(Message::Text(_))) => Some(Err(ChannelError::Text)),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    self.unflushed = true;
                    continue;
                }
                Some(Ok(Message::Close(frame))) => {
                    // Sends the reply, if the socket accepts it at once.
                    let _ = Pin::new(&mut self.socket).poll_flush(context);
                    close_result(frame).err().map(Err)
                }
                // After the close message, any end is an orderly one.
                Some(Err(_)) | None if self.close_sent => None,
                Some(Err(error)) => Some(Err(channel_error(error))),
                None => Some(Err(ChannelError::Lost(None))),
            });
        }
    }

    /// Waits until the socket accepts a message.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ChannelError>> {
        Pin::new(&mut self.socket).poll_ready(context).map_err(channel_error)
    }

    /// Sends bytes as one message. The socket must be ready.
    pub(super) fn send(&mut self, bytes: Bytes) -> Result<(), ChannelError> {
        self.send_message(Message::Binary(bytes))
    }

    /// Sends the close message. The socket must be ready.
    pub(super) fn close(&mut self) -> Result<(), ChannelError> {
        self.close_sent = true;
        self.send_message(Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })))
    }

    fn send_message(&mut self, message: Message) -> Result<(), ChannelError> {
        self.unflushed = true;
        Pin::new(&mut self.socket).start_send(message).map_err(channel_error)
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ChannelError>> {
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(context)).map_err(channel_error)?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the close message was sent.
    pub(super) fn close_sent(&self) -> bool {
        self.close_sent
    }
}
