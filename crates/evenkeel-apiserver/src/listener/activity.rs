//! What a connection is doing: requests in flight, authentication, and responses that their client does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::http_types::{Body, ConnectionCut};

/// The longest time that a client may leave a response unread.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(60);
/// The largest part of a body that is passed to HTTP/2 at once. What is passed is buffered until the client reads it.
const HTTP2_PART: usize = 256 * 1024;

/// The state of one connection, shared by its task, its requests and the table of connections.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    authenticated: AtomicBool,
    /// The connection was upgraded: its client decides when it reads.
    upgraded: AtomicBool,
    requests: AtomicU64,
    in_flight: AtomicU64,
    /// The time at which the last request ended, in nanoseconds.
    idle_since: AtomicU64,
}

impl Activity {
    /// Marks the connection as one of an authenticated client, for good.
    pub(crate) fn authenticate(&self) {
        self.authenticated.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    pub(crate) fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    pub(crate) fn start(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self, now: Duration) {
        self.idle_since.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn has_had_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Returns since when no request is in flight; `None` if one is, or the connection was upgraded.
    pub(crate) fn idle_since(&self) -> Option<Duration> {
        let idle = self.in_flight.load(Ordering::Relaxed) == 0 && !self.is_upgraded();
        idle.then(|| Duration::from_nanos(self.idle_since.load(Ordering::Relaxed)))
    }
}

/// A request in flight. It ends when the body of its response has been sent or dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    activity: Arc<Activity>,
    epoch: Instant,
}

impl InFlight {
    /// `epoch` is the zero of the times in `activity`.
    pub(crate) fn start(activity: Arc<Activity>, epoch: Instant) -> Self {
        activity.start();
        InFlight { activity, epoch }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.activity.finish(self.epoch.elapsed());
    }
}

/// The body of a response over the network.
pub(crate) struct NetworkBody {
    body: Body,
    /// The rest of a frame that is passed on in parts.
    rest: Bytes,
    /// The HTTP/2 stream that sends the body.
    stream: Option<Arc<StreamProgress>>,
    _in_flight: InFlight,
}

impl NetworkBody {
    /// Must be called in the task of the response.
    pub(crate) fn new(body: Body, in_flight: InFlight) -> Self {
        let stream = STREAM.try_with(Arc::clone).ok();
        NetworkBody { body, rest: Bytes::new(), stream, _in_flight: in_flight }
    }
}

impl http_body::Body for NetworkBody {
    type Data = Bytes;
    type Error = ConnectionCut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ConnectionCut>>> {
        let this = self.get_mut();
        let Some(stream) = &this.stream else {
            return Pin::new(&mut this.body).poll_frame(cx);
        };
        if this.rest.is_empty() {
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => {
                    stream.set_waiting_for_client(None);
                    return other;
                }
            }
        }
        stream.set_waiting_for_client(Some(Instant::now()));
        let part = this.rest.split_to(this.rest.len().min(HTTP2_PART));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for NetworkBody {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.set_waiting_for_client(None);
        }
    }
}

tokio::task_local! {
    /// The HTTP/2 stream whose task is running.
    static STREAM: Arc<StreamProgress>;
}

/// Since when an HTTP/2 stream waits until its client reads. The socket does not show this: the client may read other
/// streams of the connection.
#[derive(Debug, Default)]
struct StreamProgress(std::sync::Mutex<Option<Instant>>);

impl StreamProgress {
    fn set_waiting_for_client(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = since;
    }

    fn waiting_for_client(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Runs the task of an HTTP/2 stream until its client has left the response unread for [`STALL_LIMIT`]. Dropping the task
/// resets the stream.
pub(crate) async fn until_stalled<F: Future<Output = ()>>(stream: F) {
    let progress = Arc::<StreamProgress>::default();
    let mut stream = std::pin::pin!(STREAM.scope(Arc::clone(&progress), stream));
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // Only the stream's own task changes its progress, so nothing is missed between two polls.
        while let Some(since) = progress.waiting_for_client() {
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(since + STALL_LIMIT)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if since + STALL_LIMIT <= Instant::now() {
                tracing::debug!("response not read in time; resetting the stream");
                return Poll::Ready(());
            }
            timer.as_mut().reset(since + STALL_LIMIT);
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
