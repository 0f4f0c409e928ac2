//! The driver: connects a [`SessionState`](super::state::SessionState) to a WebSocket.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{self, CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::state::Receipt;
use super::{ChannelError, MAX_MESSAGE, Shared};

/// The interval of pings, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time without a pong.
const PONG_TIMEOUT: Duration = Duration::from_secs(61);
/// The longest time without progress of a client's write, as in client-go.
const CLIENT_WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time without progress of a server's write, as the kubelet's timeout of idle connections: a client may pause.
const SERVER_WRITE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// The longest time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The size of the socket's buffers.
const BUFFER: usize = 128 * 1024;

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends pings.
    Client,
    /// Answers pings.
    Server,
}

/// Drives a connection to its end.
pub(super) fn drive<S>(io: S, role: Role, shared: Arc<Shared>) -> impl Future<Output = ()> + Send + use<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Constructed outside of the future: handles must not wait for a future that is dropped before its first poll.
    let guard = AbortGuard(shared);
    async move {
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
        let mut driver = Driver {
            socket,
            held: None,
            heartbeat: (role == Role::Client).then(Heartbeat::new),
            write_timeout: match role {
                Role::Client => CLIENT_WRITE_TIMEOUT,
                Role::Server => SERVER_WRITE_TIMEOUT,
            },
            write_deadline: None,
            blocked: false,
            unflushed: false,
            close_sent: false,
            close_deadline: None,
        };
        let end = poll_fn(|context| driver.poll(&guard.0, context)).await;
        guard.0.lock().finish(end);
    }
}

/// Ends the session when the driver is dropped.
struct AbortGuard(Arc<Shared>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.lock().finish(Err(ChannelError::Lost(None)));
    }
}

struct Driver<S> {
    socket: WebSocketStream<S>,
    /// A message whose channel is full.
    held: Option<Bytes>,
    heartbeat: Option<Heartbeat>,
    write_timeout: Duration,
    /// Set while the socket does not accept all data.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the socket's buffer is full.
    blocked: bool,
    unflushed: bool,
    close_sent: bool,
    /// Set once the connection is to end.
    close_deadline: Option<Pin<Box<Sleep>>>,
}

/// Pings, and the time of the next pong.
struct Heartbeat {
    pings: Interval,
    ping_due: bool,
    pong_deadline: Pin<Box<Sleep>>,
}

impl Heartbeat {
    fn new() -> Self {
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Heartbeat { pings, ping_due: false, pong_deadline: Box::pin(sleep(PONG_TIMEOUT)) }
    }

    fn restart(&mut self) {
        self.pong_deadline.as_mut().reset(Instant::now() + PONG_TIMEOUT);
    }
}

/// The end of a connection.
pub(crate) type End = Result<(), ChannelError>;

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<End> {
        let polled = self.poll_connection(shared, context);
        let mut due = shared.lock().take_due();
        due.wake();
        polled
    }

    fn poll_connection(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<End> {
        let is_cancelled = {
            let mut state = shared.lock();
            state.register_driver(context.waker());
            state.is_cancelled()
        };
        if is_cancelled {
            self.close_deadline.get_or_insert_with(|| Box::pin(sleep(CLOSE_TIMEOUT)));
        }
        if let Poll::Ready(end) = self.poll_timers(context) {
            return Poll::Ready(end);
        }
        // Both directions make progress independently: two peers that only write would wait for each other.
        loop {
            let received = match self.poll_receive(shared, context) {
                Poll::Ready(Some(end)) => return Poll::Ready(end),
                Poll::Ready(None) => true,
                Poll::Pending => false,
            };
            match self.poll_send(shared, context) {
                Poll::Ready(Err(error)) => return Poll::Ready(self.closed(error)),
                Poll::Ready(Ok(())) if is_cancelled && self.close_sent => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => self.write_deadline = None,
                Poll::Pending => {
                    let limit = self.write_timeout;
                    let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
                    if deadline.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Err(ChannelError::WriteTimeout { limit }));
                    }
                }
            }
            if !received {
                break;
            }
        }
        // Registers the timer of a close message that was sent just now.
        self.poll_close_deadline(context)
    }

    fn poll_timers(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if let Some(heartbeat) = &mut self.heartbeat {
            while heartbeat.pings.poll_tick(context).is_ready() {
                heartbeat.ping_due = true;
            }
            // A pong cannot be read while a channel is full.
            if self.held.is_none() && heartbeat.pong_deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ChannelError::PingTimeout { limit: PONG_TIMEOUT }));
            }
        }
        self.poll_close_deadline(context)
    }

    fn poll_close_deadline(&mut self, context: &mut Context<'_>) -> Poll<End> {
        match &mut self.close_deadline {
            Some(deadline) => deadline.as_mut().poll(context).map(|()| Ok(())),
            None => Poll::Pending,
        }
    }

    /// Receives one message. Ready with `Some` at the end of the connection.
    fn poll_receive(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Option<End>> {
        if let Some(held) = self.held.take() {
            match self.deliver(shared, held) {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(()) if self.held.is_some() => return Poll::Pending,
                Ok(()) => self.heartbeat.iter_mut().for_each(Heartbeat::restart),
            }
        }
        let message = match Pin::new(&mut self.socket).poll_next(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(message) => message,
        };
        let delivered = match message {
            Some(Ok(Message::Binary(message))) => self.deliver(shared, message),
            Some(Ok(Message::Text(_))) => Err(ChannelError::Text),
            Some(Ok(Message::Pong(_))) => {
                self.heartbeat.iter_mut().for_each(Heartbeat::restart);
                Ok(())
            }
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => {
                self.unflushed = true;
                Ok(())
            }
            Some(Ok(Message::Close(frame))) => {
                // Sends the reply, if the socket accepts it at once.
                let _ = Pin::new(&mut self.socket).poll_flush(context);
                return Poll::Ready(Some(close_result(frame)));
            }
            Some(Err(error)) => return Poll::Ready(Some(self.closed(channel_error(error)))),
            None => return Poll::Ready(Some(self.closed(ChannelError::Lost(None)))),
        };
        match delivered {
            Ok(()) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn deliver(&mut self, shared: &Shared, message: Bytes) -> Result<(), ChannelError> {
        if let Receipt::Full(message) = shared.lock().receive(message)? {
            self.held = Some(message);
        }
        Ok(())
    }

    /// Sends all queued messages, and the close message after them.
    fn poll_send(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<(), ChannelError>> {
        while !self.close_sent {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(channel_error(error))),
                Poll::Pending => {
                    self.blocked = true;
                    return Poll::Pending;
                }
            }
            if std::mem::take(&mut self.blocked) {
                self.write_deadline = None;
            }
            let Some(message) = self.next_message(shared) else { break };
            let is_close = message.is_close();
            if let Err(error) = Pin::new(&mut self.socket).start_send(message) {
                return Poll::Ready(Err(channel_error(error)));
            }
            self.unflushed = true;
            if is_close {
                self.close_sent = true;
                self.close_deadline.get_or_insert_with(|| Box::pin(sleep(CLOSE_TIMEOUT)));
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.socket).poll_flush(context) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(channel_error(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn next_message(&mut self, shared: &Shared) -> Option<Message> {
        if let Some(heartbeat) = &mut self.heartbeat
            && std::mem::take(&mut heartbeat.ping_due)
        {
            return Some(Message::Ping(Bytes::new()));
        }
        let mut state = shared.lock();
        match state.next_message() {
            Some(message) => Some(Message::Binary(message)),
            None if state.is_closing() => {
                Some(Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })))
            }
            None => None,
        }
    }

    /// Returns how the connection ended. After the close message, any end is an orderly one.
    fn closed(&self, error: ChannelError) -> End {
        if self.close_sent { Ok(()) } else { Err(error) }
    }
}

pub(crate) fn close_result(frame: Option<CloseFrame>) -> End {
    match frame {
        Some(frame) if frame.code == CloseCode::Normal => Ok(()),
        Some(frame) => Err(ChannelError::Closed { code: frame.code.into(), reason: frame.reason.as_str().to_owned() }),
        None => Err(ChannelError::Closed { code: CloseCode::Status.into(), reason: String::new() }),
    }
}

pub(crate) fn channel_error(error: Error) -> ChannelError {
    match error {
        Error::Io(error) => ChannelError::Lost(Some(error)),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => ChannelError::Lost(None),
        Error::Capacity(CapacityError::MessageTooLong { .. }) => ChannelError::TooLarge { limit: MAX_MESSAGE },
        other => ChannelError::Protocol { problem: other.to_string() },
    }
}
