//! Responses that are consumed while they arrive: [`WatchStream`], [`ByteStream`] and its [`Lines`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
#[cfg(planted)]
use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::codec::WatchDecoder;
use evenkeel_core::{StreamError, WatchEvent};
use futures_core::{FusedStream, Stream};
use http_body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::body::body_error;
use super::protobuf_fallback::ProtobufGuard;
use crate::error::{Error, RequestName};
use crate::transport::{Body, TransportError};

/// The host in an error of a body that does not name one.
const HOST: &str = "the server";

/// How a watch ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server closed it between two events, as servers do regularly. Watch again from the last resource version.
    Closed,
    /// The server closed it within an event, which is lost. Watch again from the last resource version.
    Truncated(StreamError),
    /// The connection was lost. Watch again from the last resource version.
    Lost(TransportError),
    /// The connection was idle for longer than allowed. Watch again from the last resource version.
    TimedOut(TransportError),
    /// The stream could not be decoded, or an event was too large; later events are lost too. Watching again from the last
    /// resource version may fail the same way.
    Garbled(StreamError),
    /// [`WatchStream::stop`] was called.
    Stopped,
}

impl WatchEnd {
    fn of(error: TransportError) -> Self {
        if error.is_timeout() { WatchEnd::TimedOut(error) } else { WatchEnd::Lost(error) }
    }
}

/// A watch.
///
/// - Events are in the server's order. An `ERROR` is an event too: the server's reason for ending the watch.
/// - The stream reads at most one chunk ahead, besides the window of the connection: a slow reader slows the server down.
/// - An event that cannot be decoded is an `Err`, and the watch continues.
/// - Once [`next`](Self::next) has returned `None` it always does, and [`end`](Self::end) returns why. A lost connection is
///   reported there only: it is no event.
/// - Dropping or [stopping](Self::stop) it cancels the request.
#[derive(Debug)]
pub struct WatchStream<K> {
    request: RequestName,
    /// `None` once the watch has ended.
    decoder: Option<WatchDecoder<K>>,
    body: Body,
    end: Option<WatchEnd>,
    guard: Option<ProtobufGuard>,
}

impl<K> WatchStream<K> {
    pub(super) fn new(
        request: RequestName,
        decoder: WatchDecoder<K>,
        body: Body,
        guard: Option<ProtobufGuard>,
    ) -> Self {
        WatchStream { request, decoder: Some(decoder), body, end: None, guard }
    }

    /// Returns the next event; `None` when the watch has ended. Cancel safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns how the watch ended, once it has.
    pub fn end(&self) -> Option<&WatchEnd> {
        self.end.as_ref()
    }

    /// Takes how the watch ended, once it has. [`end`](Self::end) returns `None` afterwards; the watch stays ended.
    pub fn take_end(&mut self) -> Option<WatchEnd> {
        self.end.take()
    }

    /// Ends the watch: cancels the request and drops pending events. Does nothing if the watch has ended.
    pub fn stop(&mut self) {
        if self.decoder.is_some() {
            self.finish(WatchEnd::Stopped);
        }
    }

    fn finish(&mut self, end: WatchEnd) {
        self.decoder = None;
        self.body = Body::empty();
        self.end = Some(end);
    }

    /// Handles the end of a body that was received completely.
    fn closed(&mut self) {
        let finished = self.decoder.take().map_or(Ok(()), WatchDecoder::finish);
        self.finish(finished.map_or_else(WatchEnd::Truncated, |()| WatchEnd::Closed));
    }
}

impl<K> Stream for WatchStream<K> {
    type Item = Result<WatchEvent<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while let Some(decoder) = &mut this.decoder {
            match decoder.next_event() {
                Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Ok(None) => {}
                Err(source) => {
                    ProtobufGuard::check_stream(this.guard.as_ref(), &source);
                    if source.is_fatal() {
                        this.finish(WatchEnd::Garbled(source));
                        break;
                    }
                    return Poll::Ready(Some(Err(Error::Stream { request: this.request.clone(), source })));
                }
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        decoder.push(chunk);
                    }
                }
                Some(Err(error)) => this.finish(WatchEnd::of(TransportError::from_any(error, HOST))),
                #[cfg(planted)]
                None if is_planted(Defect::TruncatedFrameReceived) => {
                    let version = decoder.partial_version();
                    this.finish(WatchEnd::Closed);
                    let received =
                        |resource_version| WatchEvent::Bookmark { resource_version, initial_events_end: false };
                    return Poll::Ready(version.map(|version| Ok(received(version))));
                }
                None => this.closed(),
            }
        }
        Poll::Ready(None)
    }
}

impl<K> FusedStream for WatchStream<K> {
    fn is_terminated(&self) -> bool {
        self.decoder.is_none()
    }
}

/// The bytes of a response while they arrive, such as a followed log. Dropping it cancels the request.
///
/// The stream reads at most one chunk ahead. It ends after its first error. It can be read as a stream of chunks, as
/// [lines](Self::lines), and with tokio's `AsyncRead` and `AsyncBufRead`, whose errors contain the client's [`Error`];
/// switching between them loses nothing.
#[derive(Debug)]
pub struct ByteStream {
    request: RequestName,
    body: Body,
    /// Received and not yet read.
    chunk: Bytes,
    is_ended: bool,
}

impl ByteStream {
    pub(crate) fn new(request: RequestName, body: Body) -> Self {
        ByteStream { request, body, chunk: Bytes::new(), is_ended: false }
    }

    /// Returns the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Splits the stream into lines. A line longer than `limit` bytes is split into several of that length.
    pub fn lines(self, limit: usize) -> Lines {
        Lines { bytes: self, partial: Vec::new(), limit: limit.max(1), error: None, is_ended: false }
    }

    /// Waits until `chunk` has unread bytes; it is empty at the end of the stream.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.chunk.is_empty() && !self.is_ended {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    self.finish();
                    return Poll::Ready(Err(body_error(error, &self.request, HOST)));
                }
                None => self.finish(),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) {
        self.is_ended = true;
        self.body = Body::empty();
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = ready!(self.poll_chunk(context)) {
            return Poll::Ready(Some(Err(error)));
        }
        let chunk = std::mem::take(&mut self.chunk);
        Poll::Ready((!chunk.is_empty()).then_some(Ok(chunk)))
    }
}

impl FusedStream for ByteStream {
    fn is_terminated(&self) -> bool {
        self.is_ended && self.chunk.is_empty()
    }
}

impl AsyncBufRead for ByteStream {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_chunk(context)).map_err(io::Error::other)?;
        Poll::Ready(Ok(&this.chunk))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        let amount = amount.min(self.chunk.len());
        self.chunk.advance(amount);
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_chunk(context)).map_err(io::Error::other)?;
        let length = into.remaining().min(self.chunk.len());
        into.put_slice(&self.chunk.split_to(length));
        Poll::Ready(Ok(()))
    }
}

/// The lines of a response, such as a followed log. Created by [`ByteStream::lines`].
///
/// Lines have no `\n` or `\r\n`. They need not be UTF-8. The last line is returned even without a newline, also before an
/// error. A line may share its memory with others of the same chunk.
#[derive(Debug)]
pub struct Lines {
    bytes: ByteStream,
    /// The start of a line whose end has not arrived.
    partial: Vec<u8>,
    limit: usize,
    /// Returned after the last line.
    error: Option<Error>,
    is_ended: bool,
}

impl Lines {
    /// Returns the next line; `None` at the end. Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Takes the next line from the chunk, or a piece of it of the maximal length. If the chunk ends before, keeps its bytes.
    fn take_line(&mut self) -> Option<Bytes> {
        let room = self.limit - self.partial.len();
        let chunk = &mut self.bytes.chunk;
        let end = chunk.iter().take(room + 1).position(|byte| *byte == b'\n');
        let length = end.unwrap_or(chunk.len().min(room));
        let is_full = end.is_none() && chunk.len() > room;
        let part = chunk.split_to(length);
        if end.is_some() {
            chunk.advance(1);
        }
        let mut line = if self.partial.is_empty() && (end.is_some() || is_full) {
            part
        } else {
            self.partial.extend_from_slice(&part);
            if end.is_none() && !is_full {
                return None;
            }
            std::mem::take(&mut self.partial).into()
        };
        if end.is_some() && line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }
}

impl Stream for Lines {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.is_ended {
            match ready!(this.bytes.poll_chunk(context)) {
                Ok(()) if !this.bytes.chunk.is_empty() => {
                    if let Some(line) = this.take_line() {
                        return Poll::Ready(Some(Ok(line)));
                    }
                }
                end => {
                    this.is_ended = true;
                    this.error = end.err();
                    if !this.partial.is_empty() {
                        return Poll::Ready(Some(Ok(std::mem::take(&mut this.partial).into())));
                    }
                }
            }
        }
        Poll::Ready(this.error.take().map(Err))
    }
}

impl FusedStream for Lines {
    fn is_terminated(&self) -> bool {
        self.is_ended && self.error.is_none()
    }
}

#[cfg(test)]
mod tests;
