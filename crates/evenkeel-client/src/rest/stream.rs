//! Answers that come piece by piece: [`List`], [`WatchStream`], [`ByteStream`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use evenkeel_core::codec::WatchDecoder;
use evenkeel_core::{ListMeta, Obj, ResourceVersion, StreamError, WatchEvent};
use futures_core::{FusedStream, Stream};
use http_body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::content::body_error;
use super::lines::Lines;
use super::refusals::Distrust;
use crate::error::{CallName, Error};
use crate::transport::{Body, TransportError};

/// What a host is called whose body fails with an error that does not name it.
const HOST: &str = "the server";

/// A list, or a page of one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List<K> {
    /// The objects, in the server's order.
    pub items: Vec<Obj<K>>,
    /// What the list says of itself: its version, and where the next page begins.
    pub meta: ListMeta,
}

impl<K> List<K> {
    /// The objects, in the server's order.
    pub fn iter(&self) -> std::slice::Iter<'_, Obj<K>> {
        self.items.iter()
    }

    /// How many objects there are on this page.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether this page has no objects. Pages may follow it even so.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The state of the store that the list shows, to watch from.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.meta.resource_version
    }

    /// Where the next page begins; `None` on the last one.
    pub fn continue_token(&self) -> Option<&str> {
        Some(self.meta.continue_token.as_str()).filter(|token| !token.is_empty())
    }
}

impl<K> IntoIterator for List<K> {
    type Item = Obj<K>;
    type IntoIter = std::vec::IntoIter<Obj<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, K> IntoIterator for &'a List<K> {
    type Item = &'a Obj<K>;
    type IntoIter = std::slice::Iter<'a, Obj<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// How a watch ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEnd {
    /// The server ended it, between two events. Servers do so every now and then; watch again from the last version.
    Closed,
    /// The server ended it in the middle of an event, which is lost. Watch again from the last version.
    Truncated(StreamError),
    /// The connection was lost. Watch again from the last version.
    Lost(TransportError),
    /// Nothing came for longer than the connection allows. Watch again from the last version.
    TimedOut(TransportError),
    /// What came could not be understood, or an event was too large, and what would have come behind it is lost too.
    /// Watching again from the last version may well lead to the same place.
    Garbled(StreamError),
    /// [`WatchStream::stop`] was called.
    Stopped,
}

impl WatchEnd {
    /// The end of a watch whose connection failed.
    fn of(error: TransportError) -> Self {
        if error.is_timeout() { WatchEnd::TimedOut(error) } else { WatchEnd::Lost(error) }
    }
}

/// A watch: events as they come.
///
/// - Events come in the server's order. Those that say `ERROR` are events too: the server's reason for ending the watch.
/// - Nothing is read ahead of what is asked for but one chunk and what the connection's window holds, so a slow reader
///   slows the server down.
/// - An event that makes no sense is an `Err`, and the watch goes on.
/// - When [`next`](Self::next) has returned `None` it does so for ever, and [`end`](Self::end) says why. Nothing but that
///   tells of a connection that was lost: it is no event.
/// - Dropping it, or [stopping](Self::stop) it, ends the request.
#[derive(Debug)]
pub struct WatchStream<K> {
    call: CallName,
    /// `None` once the watch has ended.
    decoder: Option<WatchDecoder<K>>,
    body: Body,
    end: Option<WatchEnd>,
    distrust: Option<Distrust>,
}

impl<K> WatchStream<K> {
    pub(super) fn new(call: CallName, decoder: WatchDecoder<K>, body: Body, distrust: Option<Distrust>) -> Self {
        WatchStream { call, decoder: Some(decoder), body, end: None, distrust }
    }

    /// The next event; `None` when the watch has ended. May be dropped and called again: no event is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// How the watch ended, once it has.
    pub fn end(&self) -> Option<&WatchEnd> {
        self.end.as_ref()
    }

    /// How the watch ended, once it has, to keep. Afterwards [`end`](Self::end) knows nothing of it; that the watch is over
    /// does not change.
    pub fn take_end(&mut self) -> Option<WatchEnd> {
        self.end.take()
    }

    /// Ends the watch: the request is given up at once, and no more events come. Does nothing to a watch that has ended.
    pub fn stop(&mut self) {
        if self.decoder.is_some() {
            self.over(WatchEnd::Stopped);
        }
    }

    fn over(&mut self, end: WatchEnd) {
        self.decoder = None;
        self.body = Body::empty();
        self.end = Some(end);
    }

    /// The end of a body that was sent to its end.
    fn closed(&mut self) {
        let finished = self.decoder.take().map_or(Ok(()), WatchDecoder::finish);
        self.over(finished.map_or_else(WatchEnd::Truncated, |()| WatchEnd::Closed));
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
                    Distrust::look_at_stream(this.distrust.as_ref(), &source);
                    if source.is_fatal() {
                        this.over(WatchEnd::Garbled(source));
                        break;
                    }
                    return Poll::Ready(Some(Err(Error::Stream { call: this.call.clone(), source })));
                }
            }
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        decoder.push(chunk);
                    }
                }
                Some(Err(error)) => this.over(WatchEnd::of(TransportError::from_any(error, HOST))),
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

/// The bytes of an answer as they come, such as a log that is followed. Dropping it ends the request.
///
/// Nothing is read ahead of what is asked for but one chunk. After the end, or an error, there is nothing more. It can be
/// read as a stream of chunks, as [lines](Self::lines), and with tokio's `AsyncRead` and `AsyncBufRead`, whose errors have
/// the client's [`Error`] in them; changing from one to the other loses nothing.
#[derive(Debug)]
pub struct ByteStream {
    call: CallName,
    body: Body,
    /// What has come and has not been handed out.
    chunk: Bytes,
    is_over: bool,
}

impl ByteStream {
    pub(crate) fn new(call: CallName, body: Body) -> Self {
        ByteStream { call, body, chunk: Bytes::new(), is_over: false }
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The bytes line by line. A line longer than `limit` bytes comes in pieces of that size, as if it were several.
    pub fn lines(self, limit: usize) -> Lines {
        Lines::new(self, limit)
    }

    /// Waits for bytes that have not been handed out. They are in `chunk` then, unless this is the end.
    pub(super) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.chunk.is_empty() && !self.is_over {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    self.over();
                    return Poll::Ready(Err(body_error(error, &self.call, HOST)));
                }
                None => self.over(),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// What has come and has not been handed out.
    pub(super) fn chunk(&mut self) -> &mut Bytes {
        &mut self.chunk
    }

    fn over(&mut self) {
        self.is_over = true;
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
        self.is_over && self.chunk.is_empty()
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

#[cfg(test)]
mod tests;
