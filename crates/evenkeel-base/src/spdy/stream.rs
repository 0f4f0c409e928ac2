//! [`SpdyStream`]: the handle of a stream.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::error::{ResetStatus, SpdyError};
use super::headers::StreamHeaders;
use super::{Shared, SpdySession};

/// A stream of a [`SpdySession`], in both directions. Dropping it resets the stream, unless both directions have ended.
///
/// - `shutdown` ends the data of this side. The peer can still send.
/// - A read returns the end of the data only if the peer ended it. A reset and a lost connection are errors.
/// - A write returns when the data is queued. The driver sends it without a flush.
pub struct SpdyStream {
    shared: Arc<Shared>,
    id: u32,
    headers: StreamHeaders,
    /// Received and not yet read.
    chunk: Bytes,
}

impl SpdyStream {
    pub(super) fn new(session: &SpdySession, id: u32, headers: StreamHeaders) -> Self {
        SpdyStream { shared: Arc::clone(&session.shared), id, headers, chunk: Bytes::new() }
    }

    /// Returns the headers with which the stream was opened.
    pub fn headers(&self) -> &StreamHeaders {
        &self.headers
    }

    /// Waits until the peer has accepted the stream. Data can be written before.
    ///
    /// # Errors
    /// Returns an error if the peer refused the stream, or if the connection ended.
    pub async fn accepted(&self) -> Result<(), Arc<SpdyError>> {
        poll_fn(|context| self.shared.lock().poll_replied(self.id, context)).await
    }

    /// Returns the next bytes; `None` at the end. Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, Arc<SpdyError>>> {
        if !self.chunk.is_empty() {
            return Some(Ok(std::mem::take(&mut self.chunk)));
        }
        poll_fn(|context| self.shared.lock().poll_read(self.id, context)).await.transpose()
    }

    /// Whether the peer has ended its data. It may not have been read yet.
    pub fn has_peer_ended(&self) -> bool {
        self.shared.lock().has_peer_ended(self.id)
    }

    /// Returns a future that completes when the peer has reset the stream, or the connection has ended.
    pub fn until_reset(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        poll_fn(move |context| shared.lock().poll_reset(id, context))
    }

    /// Resets the stream: the peer processes nothing more of it.
    pub fn reset(self, status: ResetStatus) {
        self.shared.lock().remove(self.id, status);
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.chunk.is_empty() {
            let read = ready!(self.shared.lock().poll_read(self.id, context));
            self.chunk = read.map_err(|error| error.to_io())?.unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for SpdyStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_chunk(context))?;
        let length = into.remaining().min(self.chunk.len());
        into.put_slice(self.chunk.get(..length).unwrap_or_default());
        self.chunk.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for SpdyStream {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_chunk(context))?;
        Poll::Ready(Ok(&this.chunk))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        let amount = amount.min(self.chunk.len());
        self.chunk.advance(amount);
    }
}

impl AsyncWrite for SpdyStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.lock().poll_write(self.id, data, context)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.lock().shutdown(self.id))
    }
}

impl Drop for SpdyStream {
    fn drop(&mut self) {
        self.shared.lock().remove(self.id, ResetStatus::CANCEL);
    }
}

impl fmt::Debug for SpdyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpdyStream").field("id", &self.id).field("headers", &self.headers).finish_non_exhaustive()
    }
}
