//! [`SpdyState`]: the protocol without I/O.

mod outgoing;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::error::{ResetStatus, SpdyError};
use super::frame::{self, DataFrame, Frame};
use super::headers::{HeaderEncoder, StreamHeaders};
use super::inbound::InboundBuffer;
use super::{INBOUND_LIMIT, MAX_STREAMS, SESSION_INBOUND_LIMIT};
use crate::channels::Role;
use crate::wakers::Wakers;

/// The most control frames that wait to be sent.
pub(super) const MAX_CONTROL_QUEUE: usize = 4 * MAX_STREAMS;
/// The frames that wait to be sent, from which no streams are opened or accepted.
const FRAME_PAUSE: usize = MAX_STREAMS;
/// The largest id of a stream.
const MAX_STREAM_ID: u32 = (1 << 31) - 1;

/// All streams of a connection, and how it ended.
pub(super) struct SpdyState {
    streams: HashMap<u32, StreamState>,
    /// Streams of the peer that nothing has accepted.
    arrived: VecDeque<(u32, StreamHeaders)>,
    acceptors: Wakers,
    next_id: u32,
    next_ping: u32,
    /// Whether the peer has not responded to the last ping.
    ping_unanswered: bool,
    /// The largest id of the peer's streams.
    last_peer_id: u32,
    /// Whether one side announced the end of the connection.
    gone_away: bool,
    encoder: HeaderEncoder,
    /// Control frames; they are sent first.
    control: VecDeque<Bytes>,
    outbox: VecDeque<Bytes>,
    /// The last frame of the outbox.
    unfinished: Option<DataFrame>,
    outbox_bytes: usize,
    /// Tasks that wait for room to send, or for the end of another stream.
    writers: Wakers,
    /// Readers whose data has arrived. The driver wakes them once for all frames that it has received, without the lock.
    due: Wakers,
    /// The unread bytes of all streams.
    unread: usize,
    /// The stream whose data the driver holds.
    held: Option<u32>,
    driver: Option<Waker>,
    closing: bool,
    end: Option<Result<(), Arc<SpdyError>>>,
    waiters: Wakers,
}

#[derive(Default)]
struct StreamState {
    inbound: InboundBuffer,
    /// Whether the peer sends nothing more.
    remote_closed: bool,
    /// Whether this side sends nothing more.
    local_closed: bool,
    replied: bool,
    reset: Option<Arc<SpdyError>>,
    /// The tasks that wait for data, and for the reply.
    readers: Wakers,
}

/// What became of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameReceipt {
    /// It was processed.
    Accepted,
    /// A buffer is full. The caller keeps the frame and receives nothing else.
    Full(Frame),
}

impl SpdyState {
    pub(super) fn new(role: Role) -> Self {
        // The streams and pings of a client have odd ids.
        let first = if role == Role::Client { 1 } else { 2 };
        SpdyState {
            streams: HashMap::new(),
            arrived: VecDeque::new(),
            acceptors: Wakers::default(),
            next_id: first,
            next_ping: first,
            ping_unanswered: false,
            last_peer_id: 0,
            gone_away: false,
            encoder: HeaderEncoder::default(),
            control: VecDeque::new(),
            outbox: VecDeque::new(),
            unfinished: None,
            outbox_bytes: 0,
            writers: Wakers::default(),
            due: Wakers::default(),
            unread: 0,
            held: None,
            driver: None,
            closing: false,
            end: None,
            waiters: Wakers::default(),
        }
    }

    /// Processes a frame of the peer. Frames of unknown streams are discarded: the stream may have been dropped.
    pub(super) fn receive(&mut self, frame: Frame) -> Result<FrameReceipt, SpdyError> {
        match frame {
            Frame::SynStream { stream, fin, headers } => self.receive_stream(stream, fin, headers)?,
            Frame::SynReply { stream, fin } => {
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.replied = true;
                    known.remote_closed |= fin;
                    known.readers.wake();
                }
            }
            Frame::Headers { stream, fin } => {
                if let Some(known) = self.streams.get_mut(&stream).filter(|_| fin) {
                    known.remote_closed = true;
                    known.readers.wake();
                }
            }
            Frame::Reset { stream, status } => {
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.reset.get_or_insert_with(|| Arc::new(SpdyError::Reset(status)));
                    known.readers.wake();
                    self.writers.wake();
                }
            }
            Frame::Ping { id } if id % 2 == self.next_ping % 2 => self.ping_unanswered = false,
            Frame::Ping { id } => self.respond(frame::ping(id))?,
            Frame::GoAway => {
                self.gone_away = true;
                self.acceptors.wake();
                self.writers.wake();
            }
            Frame::Data { stream, payload, fin } => return Ok(self.receive_data(stream, payload, fin)),
        }
        Ok(FrameReceipt::Accepted)
    }

    fn receive_stream(&mut self, stream: u32, fin: bool, headers: StreamHeaders) -> Result<(), SpdyError> {
        if stream % 2 == self.next_id % 2 || stream <= self.last_peer_id {
            return self.respond(frame::reset(stream, ResetStatus::PROTOCOL_ERROR));
        }
        self.last_peer_id = stream;
        if self.gone_away || self.closing || self.streams.len() >= MAX_STREAMS {
            return self.respond(frame::reset(stream, ResetStatus::REFUSED_STREAM));
        }
        let state = StreamState { remote_closed: fin, replied: true, ..StreamState::default() };
        self.streams.insert(stream, state);
        self.arrived.push_back((stream, headers));
        self.acceptors.wake();
        Ok(())
    }

    fn receive_data(&mut self, stream: u32, payload: Bytes, fin: bool) -> FrameReceipt {
        let Some(known) = self.streams.get_mut(&stream) else { return FrameReceipt::Accepted };
        if known.remote_closed || known.reset.is_some() {
            return FrameReceipt::Accepted;
        }
        if !payload.is_empty() {
            if known.inbound.len() >= INBOUND_LIMIT || self.unread >= SESSION_INBOUND_LIMIT {
                self.held = Some(stream);
                return FrameReceipt::Full(Frame::Data { stream, payload, fin });
            }
            self.unread += payload.len();
            known.inbound.push(payload);
        }
        known.remote_closed |= fin;
        self.due.append(&mut known.readers);
        FrameReceipt::Accepted
    }

    /// Queues a response to the peer.
    fn respond(&mut self, frame: Bytes) -> Result<(), SpdyError> {
        if self.control.len() >= MAX_CONTROL_QUEUE {
            return Err(SpdyError::Flood { limit: MAX_CONTROL_QUEUE });
        }
        self.send_control(frame);
        Ok(())
    }

    fn send_control(&mut self, frame: Bytes) {
        self.control.push_back(frame);
        self.wake_driver();
    }

    /// Whether too many frames wait to be sent.
    fn must_pause(&self) -> bool {
        self.control.len() + self.outbox.len() >= FRAME_PAUSE
    }

    /// Opens a stream. Waits while too many are open.
    pub(super) fn poll_open(
        &mut self,
        headers: &StreamHeaders,
        context: &mut Context<'_>,
    ) -> Poll<Result<u32, Arc<SpdyError>>> {
        if let Some(end) = &self.end {
            return Poll::Ready(Err(end.clone().err().unwrap_or_else(|| Arc::new(SpdyError::Closed))));
        }
        if self.gone_away || self.closing || self.next_id > MAX_STREAM_ID {
            return Poll::Ready(Err(Arc::new(SpdyError::GoneAway)));
        }
        if self.streams.len() >= MAX_STREAMS || self.must_pause() {
            self.writers.add(context.waker());
            return Poll::Pending;
        }
        let stream = self.next_id;
        self.next_id += 2;
        self.streams.insert(stream, StreamState::default());
        let frame = frame::syn_stream(stream, headers, &mut self.encoder);
        self.send_control(frame);
        Poll::Ready(Ok(stream))
    }

    /// Accepts a stream of the peer, with a reply; `None` when there are no more.
    pub(super) fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Option<(u32, StreamHeaders)>> {
        if self.must_pause() && self.end.is_none() {
            self.writers.add(context.waker());
            return Poll::Pending;
        }
        if let Some((stream, headers)) = self.arrived.pop_front() {
            let frame = frame::syn_reply(stream, &mut self.encoder);
            self.send_control(frame);
            return Poll::Ready(Some((stream, headers)));
        }
        if self.gone_away || self.closing || self.end.is_some() {
            return Poll::Ready(None);
        }
        self.acceptors.add(context.waker());
        Poll::Pending
    }

    /// Waits for the reply of the peer.
    pub(super) fn poll_replied(&mut self, stream: u32, context: &mut Context<'_>) -> Poll<Result<(), Arc<SpdyError>>> {
        let end = self.end.clone();
        let Some(known) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Arc::new(SpdyError::Closed))) };
        match (&known.reset, end) {
            // What follows the reply is a result of reads and writes.
            _ if known.replied => Poll::Ready(Ok(())),
            (Some(reset), _) => Poll::Ready(Err(Arc::clone(reset))),
            (None, Some(end)) => Poll::Ready(Err(end.err().unwrap_or_else(|| Arc::new(SpdyError::Closed)))),
            (None, None) => {
                known.readers.add(context.waker());
                Poll::Pending
            }
        }
    }

    /// Reads the next bytes of a stream; `None` at its end.
    pub(super) fn poll_read(
        &mut self,
        stream: u32,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Arc<SpdyError>>> {
        let Some(known) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Arc::new(SpdyError::Closed))) };
        if let Some(data) = known.inbound.pop() {
            self.unread -= data.len();
            self.release_held();
            return Poll::Ready(Ok(Some(data)));
        }
        match (&known.reset, &self.end) {
            _ if known.remote_closed => Poll::Ready(Ok(None)),
            (Some(error), _) | (None, Some(Err(error))) => Poll::Ready(Err(Arc::clone(error))),
            (None, Some(Ok(()))) => Poll::Ready(Err(Arc::new(SpdyError::Closed))),
            (None, None) => {
                known.readers.add(context.waker());
                Poll::Pending
            }
        }
    }

    /// Wakes the driver if the data that it holds has room again. A stream resumes when it is half empty.
    fn release_held(&mut self) {
        let Some(held) = self.held else { return };
        let has_room = self.streams.get(&held).is_none_or(|stream| stream.inbound.len() <= INBOUND_LIMIT / 2);
        if has_room && self.unread < SESSION_INBOUND_LIMIT {
            self.held = None;
            self.wake_driver();
        }
    }

    /// Takes the readers to wake after frames were received.
    pub(super) fn take_due(&mut self) -> Wakers {
        std::mem::take(&mut self.due)
    }

    /// Closes the connection after everything that was written.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            self.finish_frame(false);
            self.outbox.push_back(frame::go_away(self.last_peer_id));
        }
        self.acceptors.wake();
        self.writers.wake();
        self.wake_driver();
    }

    /// Closes the connection at once.
    pub(super) fn cancel(&mut self) {
        self.closing = true;
        self.control.clear();
        self.outbox.clear();
        self.unfinished = None;
        self.outbox_bytes = 0;
        self.outbox.push_back(frame::go_away(self.last_peer_id));
        self.finish(Err(SpdyError::Cancelled));
        self.wake_driver();
    }

    /// Whether streams can be opened, and the driver holds no data.
    pub(super) fn is_available(&self) -> bool {
        let is_open = self.end.is_none() && !self.closing && !self.gone_away && self.next_id <= MAX_STREAM_ID;
        is_open && self.held.is_none()
    }

    /// Whether the peer sends nothing more on a stream.
    pub(super) fn has_peer_ended(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|known| known.remote_closed)
    }

    /// Waits until the peer has reset a stream, or the connection has ended.
    pub(super) fn poll_reset(&mut self, stream: u32, context: &mut Context<'_>) -> Poll<()> {
        let has_ended = self.end.is_some();
        match self.streams.get_mut(&stream) {
            Some(known) if known.reset.is_none() && !has_ended => {
                known.readers.add(context.waker());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Whether the connection is closed after the outbox.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether no handle expects anything from the connection.
    pub(super) fn is_cancelled(&self) -> bool {
        self.closing && self.end.is_some()
    }

    /// Records how the connection ended. The first call decides.
    pub(super) fn finish(&mut self, end: Result<(), SpdyError>) {
        if self.end.is_none() {
            self.end = Some(end.map_err(Arc::new));
        }
        self.streams.values_mut().for_each(|stream| stream.readers.wake());
        self.acceptors.wake();
        self.writers.wake();
        self.waiters.wake();
    }

    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Arc<SpdyError>>> {
        match &self.end {
            Some(end) => Poll::Ready(end.clone()),
            None => {
                self.waiters.add(context.waker());
                Poll::Pending
            }
        }
    }

    /// The unread bytes of all streams.
    #[cfg(test)]
    pub(super) fn unread(&self) -> usize {
        self.unread
    }

    /// The control frames that wait to be sent.
    #[cfg(test)]
    pub(super) fn control_frames(&self) -> usize {
        self.control.len()
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
