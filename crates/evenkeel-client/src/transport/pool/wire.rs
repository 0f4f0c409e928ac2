//! [`Wire`]: the byte stream of a connection, counted while it is open.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::super::Lane;
use super::super::connect::BoxIo;

/// The counters of a pool.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) host: Box<str>,
    pub(super) connections: AtomicUsize,
    pub(super) in_flight: AtomicUsize,
    pub(super) dials: AtomicUsize,
}

impl Tally {
    pub(super) fn count_dial(&self, lane: Lane) {
        self.dials.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("evenkeel_client_dials_total", "host" => self.host.to_string(), "lane" => lane.name())
            .increment(1);
    }
}

/// Counts a connection while it is open.
struct Open {
    tally: Arc<Tally>,
    gauge: metrics::Gauge,
}

impl Open {
    fn new(tally: Arc<Tally>, lane: Lane) -> Self {
        tally.connections.fetch_add(1, Ordering::Relaxed);
        let gauge =
            metrics::gauge!("evenkeel_client_connections", "host" => tally.host.to_string(), "lane" => lane.name());
        gauge.increment(1);
        Open { tally, gauge }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tally.connections.fetch_sub(1, Ordering::Relaxed);
        self.gauge.decrement(1);
    }
}

/// The byte stream of a connection, counted while it is open.
///
/// For HTTP/2 it also signals when the server's SETTINGS, the first frame, have been read: until then the stream limit
/// is unknown, and hyper does not report it.
pub(super) struct Wire {
    io: BoxIo,
    settings: Option<FirstFrame>,
    _open: Open,
}

impl Wire {
    pub(super) fn new(io: BoxIo, tally: Arc<Tally>, lane: Lane) -> Self {
        Wire { io, settings: None, _open: Open::new(tally, lane) }
    }

    /// Returns a receiver that completes after the first frame.
    pub(super) fn watch_settings(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.settings = Some(FirstFrame { heard: sender, length: 0, seen: 0 });
        receiver
    }
}

/// Counts the bytes of the first frame: three bytes of length, six more of header, and the payload.
struct FirstFrame {
    heard: oneshot::Sender<()>,
    length: usize,
    seen: usize,
}

impl FirstFrame {
    const HEADER: usize = 9;

    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().take(3_usize.saturating_sub(self.seen)) {
            self.length = self.length << 8 | usize::from(*byte);
        }
        self.seen += bytes.len();
    }

    fn is_complete(&self) -> bool {
        self.seen >= Self::HEADER + self.length
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A further read means that all complete frames before it were processed.
        if let Some(settings) = self.settings.take_if(|settings| settings.is_complete()) {
            let _ = settings.heard.send(());
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        if let Some(settings) = &mut self.settings {
            settings.read(buffer.filled().get(before..).unwrap_or_default());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
