//! What a connection does, and for how long it may.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// The time from the first byte of a request to the end of its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
/// The time that a connection may be without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// What a connection does, and since when. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<Phase>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request; a response may still be on its way.
    Idle(Instant),
    /// A part of the head of a request has arrived.
    Head(Instant),
    /// A request is read or answered. It has time limits of its own.
    Busy,
}

impl Activity {
    pub(super) fn new() -> Self {
        Activity(Arc::new(Mutex::new(Phase::Idle(Instant::now()))))
    }

    fn phase(&self) -> Phase {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// A request has arrived.
    pub(super) fn begin(&self) {
        self.set(Phase::Busy);
    }

    /// The request is answered.
    pub(super) fn end(&self) {
        self.set(Phase::Idle(Instant::now()));
    }

    fn received(&self) {
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Idle(_) = *phase {
            *phase = Phase::Head(Instant::now());
        }
    }

    /// Returns since when the connection has been without a complete request.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        match self.phase() {
            Phase::Idle(since) | Phase::Head(since) => Some(since),
            Phase::Busy => None,
        }
    }

    /// Completes when the connection has taken too long for what it does. Has to be polled after the connection, whenever that
    /// is polled.
    pub(super) async fn expired(&self) {
        let mut sleep = pin!(sleep_until(Instant::now() + IDLE_TIMEOUT));
        poll_fn(|context| {
            let deadline = match self.phase() {
                Phase::Idle(since) => since + IDLE_TIMEOUT,
                Phase::Head(since) => since + HEAD_TIMEOUT,
                Phase::Busy => return Poll::Pending,
            };
            if sleep.deadline() != deadline {
                sleep.as_mut().reset(deadline);
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

/// A stream that reports what arrives to the [`Activity`] of its connection.
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    pub(super) stream: S,
    pub(super) activity: Activity,
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if buffer.filled().len() > before {
            self.activity.received();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
