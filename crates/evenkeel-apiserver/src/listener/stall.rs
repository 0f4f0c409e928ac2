//! [`StallGuard`]: a connection that ends when its peer stops reading, and that lets others run while its peer floods it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::activity::{Activity, STALL_LIMIT};

/// The most that is read before other tasks run. It may be hundreds of HTTP/2 frames.
const READ_TURN: usize = 16 * 1024;

/// Fails a write that makes no progress for [`STALL_LIMIT`]. Upgraded connections are exempt: their users may pause.
///
/// Reading yields to other tasks every 16 KiB, since HTTP/2 handles all frames that it can read in one go.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    stream: S,
    activity: Arc<Activity>,
    timer: Option<Pin<Box<Sleep>>>,
    /// The timer runs: a write is pending.
    is_stalled: bool,
    /// The bytes read since other tasks ran.
    read: usize,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        StallGuard { stream, activity, timer: None, is_stalled: false, read: 0 }
    }

    fn judge<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() || self.activity.is_upgraded() {
            self.is_stalled = false;
            return written;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(STALL_LIMIT)));
        if !self.is_stalled {
            self.is_stalled = true;
            timer.as_mut().reset(Instant::now() + STALL_LIMIT);
        }
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its responses")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read >= READ_TURN {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match outcome {
            Poll::Ready(_) => self.read += buffer.filled().len() - before,
            Poll::Pending => self.read = 0,
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.judge(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
