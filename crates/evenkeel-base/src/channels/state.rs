//! [`SessionState`]: the protocol without I/O.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};

use super::{CHUNK, CLOSE, ChannelError, ChannelProtocol, INBOUND_LIMIT, OUTBOX_LIMIT, Role, SessionSettings};
use crate::wakers::Wakers;

/// The buffers of all channels, and how the connection ended.
#[derive(Debug)]
pub(super) struct SessionState {
    /// Whether this side closes single channels.
    half_close: bool,
    /// Whether the peer may close single channels.
    peer_half_close: bool,
    inbound: Vec<Inbound>,
    outbound: Vec<Outbound>,
    /// Encoded messages.
    outbox: VecDeque<Bytes>,
    outbox_bytes: usize,
    writers: Wakers,
    /// Readers whose data has arrived. The driver wakes them once for all messages that it has received, without the lock.
    due: Wakers,
    driver: Option<Waker>,
    closing: bool,
    end: Option<Result<(), Arc<ChannelError>>>,
    waiters: Wakers,
}

#[derive(Debug)]
struct Inbound {
    id: u8,
    /// Received and not yet read. Messages are copied, so that they do not keep the socket's buffer. The reader exchanges it
    /// for an empty one, so that both are reused.
    unread: BytesMut,
    /// Whether the peer closed the channel.
    closed: bool,
    /// Whether the driver holds a message until there is room.
    full: bool,
    /// Whether the reader was dropped.
    discarded: bool,
    reader: Option<Waker>,
}

#[derive(Debug)]
struct Outbound {
    id: u8,
    closed: bool,
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// It was buffered, or discarded.
    Accepted,
    /// The buffer of its channel is full. The caller keeps it and receives nothing else.
    Full(Bytes),
}

impl SessionState {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        let inbound = |id: &u8| Inbound {
            id: *id,
            unread: BytesMut::new(),
            closed: false,
            full: false,
            discarded: false,
            reader: None,
        };
        let peer_half_close = settings.protocol == ChannelProtocol::V5;
        SessionState {
            half_close: peer_half_close && settings.role == Role::Client,
            peer_half_close,
            inbound: settings.inbound.iter().map(inbound).collect(),
            outbound: settings.outbound.iter().map(|id| Outbound { id: *id, closed: false }).collect(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            writers: Wakers::default(),
            due: Wakers::default(),
            driver: None,
            closing: false,
            end: None,
            waiters: Wakers::default(),
        }
    }

    /// Processes a message of the peer. A message of an unknown channel is discarded.
    pub(super) fn receive(&mut self, message: Bytes) -> Result<Receipt, ChannelError> {
        let Some(id) = message.first().copied() else { return Err(ChannelError::Empty) };
        if id == CLOSE && self.peer_half_close {
            if let Some(channel) = message.get(1).and_then(|closed| find(&mut self.inbound, *closed)) {
                channel.closed = true;
                channel.notify(&mut self.due);
            }
            return Ok(Receipt::Accepted);
        }
        let Some(channel) = find(&mut self.inbound, id) else { return Ok(Receipt::Accepted) };
        // A server opens a channel with an empty payload.
        if channel.discarded || channel.closed || message.len() == 1 {
            return Ok(Receipt::Accepted);
        }
        channel.full = channel.unread.len() >= INBOUND_LIMIT;
        if channel.full {
            return Ok(Receipt::Full(message));
        }
        channel.unread.extend_from_slice(message.get(1..).unwrap_or_default());
        channel.notify(&mut self.due);
        Ok(Receipt::Accepted)
    }

    /// Exchanges an empty buffer for everything that is unread. The buffer remains empty at the end of the channel.
    pub(super) fn poll_read(
        &mut self,
        id: u8,
        empty: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Arc<ChannelError>>> {
        let Some(channel) = find(&mut self.inbound, id) else { return Poll::Ready(Ok(())) };
        if !channel.unread.is_empty() {
            std::mem::swap(&mut channel.unread, empty);
            if std::mem::take(&mut channel.full) {
                self.wake_driver();
            }
            return Poll::Ready(Ok(()));
        }
        match &self.end {
            _ if channel.closed => Poll::Ready(Ok(())),
            Some(Ok(())) => Poll::Ready(Ok(())),
            Some(Err(error)) => Poll::Ready(Err(Arc::clone(error))),
            None => {
                channel.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Discards what a channel has and will receive.
    pub(super) fn discard(&mut self, id: u8) {
        if let Some(channel) = find(&mut self.inbound, id) {
            channel.discarded = true;
            channel.unread = BytesMut::new();
            channel.full = false;
            channel.reader = None;
            self.wake_driver();
        }
    }

    /// Queues up to [`CHUNK`] bytes and returns how many.
    pub(super) fn poll_write(&mut self, id: u8, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Err(error) = self.check_writable(id) {
            return Poll::Ready(Err(error));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.outbox_bytes >= OUTBOX_LIMIT {
            self.writers.add(context.waker());
            return Poll::Pending;
        }
        let chunk = bytes.get(..CHUNK).unwrap_or(bytes);
        self.push(id, chunk);
        Poll::Ready(Ok(chunk.len()))
    }

    fn check_writable(&self, id: u8) -> io::Result<()> {
        match &self.end {
            Some(Ok(())) => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the connection is closed")),
            Some(Err(error)) => return Err(error.to_io()),
            None => {}
        }
        match self.outbound.iter().find(|channel| channel.id == id) {
            Some(channel) if !channel.closed && !self.closing => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the channel is closed")),
        }
    }

    /// Closes an outbound channel. The peer sees the end of its data, unless the protocol has no message for it.
    pub(super) fn close_channel(&mut self, id: u8) -> io::Result<()> {
        self.check_writable(id)?;
        if !self.half_close {
            let problem = "the subprotocol cannot close one channel; the peer does not see its end";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        if let Some(channel) = self.outbound.iter_mut().find(|channel| channel.id == id) {
            channel.closed = true;
        }
        self.push(CLOSE, &[id]);
        Ok(())
    }

    /// Queues a message, in place of a queued one of the same channel.
    pub(super) fn send_latest(&mut self, id: u8, payload: &[u8]) {
        if self.check_writable(id).is_err() {
            return;
        }
        if let Some(at) = self.outbox.iter().position(|message| message.first() == Some(&id))
            && let Some(replaced) = self.outbox.remove(at)
        {
            self.outbox_bytes -= replaced.len();
        }
        self.push(id, payload);
    }

    fn push(&mut self, id: u8, payload: &[u8]) {
        let mut message = BytesMut::with_capacity(1 + payload.len());
        message.put_u8(id);
        message.put_slice(payload);
        self.outbox_bytes += message.len();
        self.outbox.push_back(message.freeze());
        self.wake_driver();
    }

    /// Takes the next message to send.
    pub(super) fn next_message(&mut self) -> Option<Bytes> {
        let message = self.outbox.pop_front()?;
        self.outbox_bytes -= message.len();
        if self.outbox_bytes <= OUTBOX_LIMIT / 2 {
            self.writers.wake();
        }
        Some(message)
    }

    /// Takes the readers to wake after messages were received.
    pub(super) fn take_due(&mut self) -> Wakers {
        std::mem::take(&mut self.due)
    }

    /// Closes the connection after the outbox.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.writers.wake();
        self.wake_driver();
    }

    /// Closes the connection at once.
    pub(super) fn cancel(&mut self) {
        self.closing = true;
        self.outbox.clear();
        self.outbox_bytes = 0;
        self.finish(Err(ChannelError::Cancelled));
        self.wake_driver();
    }

    /// Whether a close message is to be sent after the outbox.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether no handle expects anything from the connection.
    pub(super) fn is_cancelled(&self) -> bool {
        self.closing && self.end.is_some()
    }

    /// Records how the connection ended. The first call decides.
    pub(super) fn finish(&mut self, end: Result<(), ChannelError>) {
        if self.end.is_none() {
            self.end = Some(end.map_err(Arc::new));
        }
        self.inbound.iter_mut().for_each(Inbound::wake);
        self.writers.wake();
        self.waiters.wake();
    }

    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Arc<ChannelError>>> {
        match &self.end {
            Some(end) => Poll::Ready(end.clone()),
            None => {
                self.waiters.add(context.waker());
                Poll::Pending
            }
        }
    }

    /// Wakes this task when there is something to send, or room to receive.
    pub(super) fn register_driver(&mut self, waker: &Waker) {
        match &mut self.driver {
            Some(driver) => driver.clone_from(waker),
            driver => *driver = Some(waker.clone()),
        }
    }

    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl Inbound {
    /// Wakes the reader later.
    fn notify(&mut self, due: &mut Wakers) {
        if let Some(reader) = self.reader.take() {
            due.push(reader);
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

fn find(channels: &mut [Inbound], id: u8) -> Option<&mut Inbound> {
    channels.iter_mut().find(|channel| channel.id == id)
}
