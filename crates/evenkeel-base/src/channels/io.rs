//! [`ChannelReader`] and [`ChannelWriter`]: the handles of channels.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::{ChannelError, Shared};

/// The data of one channel as it arrives. Dropping it discards the rest, without closing the connection.
///
/// The end of the data is the end of the channel. A connection that was lost is an error, never an end.
pub struct ChannelReader {
    shared: Arc<Shared>,
    channel: u8,
    /// Received and not yet read.
    chunk: BytesMut,
}

impl ChannelReader {
    pub(super) fn new(shared: Arc<Shared>, channel: u8) -> Self {
        ChannelReader { shared, channel, chunk: BytesMut::new() }
    }

    /// Returns the next bytes; `None` at the end. Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, Arc<ChannelError>>> {
        if self.chunk.is_empty() {
            let read = poll_fn(|context| self.shared.lock().poll_read(self.channel, &mut self.chunk, context)).await;
            if let Err(error) = read {
                return Some(Err(error));
            }
        }
        let chunk = self.chunk.split().freeze();
        (!chunk.is_empty()).then_some(Ok(chunk))
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.chunk.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.shared.lock().poll_read(self.channel, &mut self.chunk, context).map_err(|error| error.to_io())
    }
}

impl AsyncRead for ChannelReader {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_chunk(context))?;
        let length = into.remaining().min(self.chunk.len());
        into.put_slice(self.chunk.get(..length).unwrap_or_default());
        self.chunk.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for ChannelReader {
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

impl Drop for ChannelReader {
    fn drop(&mut self) {
        self.shared.lock().discard(self.channel);
    }
}

impl fmt::Debug for ChannelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelReader").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Writes the data of one channel. Dropping it, or `shutdown`, closes the channel: the peer sees the end of the data.
///
/// A write returns when the data is queued. `shutdown` fails if the subprotocol cannot close a channel.
pub struct ChannelWriter {
    shared: Arc<Shared>,
    channel: u8,
}

impl ChannelWriter {
    pub(super) fn new(shared: Arc<Shared>, channel: u8) -> Self {
        ChannelWriter { shared, channel }
    }
}

impl AsyncWrite for ChannelWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.lock().poll_write(self.channel, bytes, context)
    }

    /// The driver sends queued data without being asked to.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.lock().close_channel(self.channel))
    }
}

impl Drop for ChannelWriter {
    fn drop(&mut self) {
        // The channel may be closed already, or the subprotocol may not have a message for it.
        let _ = self.shared.lock().close_channel(self.channel);
    }
}

impl fmt::Debug for ChannelWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelWriter").field("channel", &self.channel).finish_non_exhaustive()
    }
}
