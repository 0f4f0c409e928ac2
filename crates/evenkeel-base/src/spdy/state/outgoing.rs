//! What a connection sends: control frames first, then data in the order of the writes.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::super::error::{ResetStatus, SpdyError};
use super::super::frame::{self, DataFrame};
use super::super::{CHUNK, OUTBOX_LIMIT};
use super::{MAX_STREAM_ID, SpdyState};

impl SpdyState {
    /// Queues up to [`CHUNK`] bytes and returns how many.
    pub(in crate::spdy) fn poll_write(
        &mut self,
        stream: u32,
        data: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.check_writable(stream) {
            return Poll::Ready(Err(error));
        }
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.outbox_bytes >= OUTBOX_LIMIT {
            self.writers.add(context.waker());
            return Poll::Pending;
        }
        let mut data = data.get(..CHUNK).unwrap_or(data);
        match &mut self.unfinished {
            // Small writes share a frame while the connection is busy.
            Some(frame) if frame.stream == stream && frame.len() < CHUNK => {
                data = data.get(..CHUNK - frame.len()).unwrap_or(data);
                frame.push(data);
            }
            _ => {
                self.finish_frame(false);
                self.unfinished = Some(DataFrame::new(stream, data));
            }
        }
        self.outbox_bytes += data.len();
        self.wake_driver();
        Poll::Ready(Ok(data.len()))
    }

    fn check_writable(&self, stream: u32) -> io::Result<()> {
        let known = self.streams.get(&stream);
        if let Some(reset) = known.and_then(|known| known.reset.as_ref()) {
            return Err(reset.to_io());
        }
        match &self.end {
            Some(Ok(())) => return Err(Arc::new(SpdyError::Closed).to_io()),
            Some(Err(error)) => return Err(error.to_io()),
            None => {}
        }
        match known {
            Some(known) if !known.local_closed && !self.closing => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the stream is closed for writing")),
        }
    }

    /// Completes the last frame of the outbox.
    pub(super) fn finish_frame(&mut self, fin: bool) {
        if let Some(frame) = self.unfinished.take() {
            self.outbox.push_back(frame.finish(fin));
        }
    }

    /// Ends the data of this side. Does nothing if it has ended.
    pub(in crate::spdy) fn shutdown(&mut self, stream: u32) -> io::Result<()> {
        if self.streams.get(&stream).is_some_and(|known| known.local_closed) {
            return Ok(());
        }
        self.check_writable(stream)?;
        if let Some(known) = self.streams.get_mut(&stream) {
            known.local_closed = true;
        }
        if self.unfinished.as_ref().is_none_or(|frame| frame.stream != stream) {
            self.finish_frame(false);
            self.unfinished = Some(DataFrame::new(stream, &[]));
        }
        self.finish_frame(true);
        self.wake_driver();
        Ok(())
    }

    /// Removes a stream, with a reset unless both sides have ended. Queued data is still sent.
    pub(in crate::spdy) fn remove(&mut self, stream: u32, status: ResetStatus) {
        let Some(known) = self.streams.remove(&stream) else { return };
        self.unread -= known.inbound.len();
        let is_finished = known.remote_closed && known.local_closed;
        if !is_finished && known.reset.is_none() && !self.closing && self.end.is_none() {
            self.reset_stream(stream, status);
        }
        self.release_held();
        self.writers.wake();
    }

    /// Queues a reset. It must not overtake the data of its stream.
    fn reset_stream(&mut self, stream: u32, status: ResetStatus) {
        let frame = frame::reset(stream, status);
        self.finish_frame(false);
        if self.outbox.iter().any(|queued| queued.starts_with(&stream.to_be_bytes())) {
            self.outbox_bytes += frame.len() - frame::FRAME_HEADER;
            self.outbox.push_back(frame);
            self.wake_driver();
        } else {
            self.send_control(frame);
        }
    }

    /// Takes the next frame to send.
    pub(in crate::spdy) fn next_frame(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.control.pop_front() {
            if !self.must_pause() {
                self.writers.wake();
            }
            return Some(frame);
        }
        if self.outbox.is_empty() {
            self.finish_frame(false);
        }
        let frame = self.outbox.pop_front()?;
        self.outbox_bytes = self.outbox_bytes.saturating_sub(frame.len() - frame::FRAME_HEADER);
        if self.outbox_bytes <= OUTBOX_LIMIT / 2 && !self.must_pause() {
            self.writers.wake();
        }
        Some(frame)
    }

    /// Queues a ping, unless the peer has not responded to the last one.
    pub(in crate::spdy) fn ping(&mut self) {
        if !std::mem::replace(&mut self.ping_unanswered, true) {
            let frame = frame::ping(self.next_ping);
            self.next_ping =
                if self.next_ping > MAX_STREAM_ID - 2 { 2 - self.next_ping % 2 } else { self.next_ping + 2 };
            self.send_control(frame);
        }
    }
}
