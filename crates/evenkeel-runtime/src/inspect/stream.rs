//! [`EventStream`]: sends changes to a page as server-sent events.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::InspectorInner;
use super::session::PageSession;
use crate::serve::Connection;

/// Minimum interval between two updates of a page.
pub(super) const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// A heartbeat is sent after this long without an update.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// Reconnect delay of the browser.
const RECONNECT: &str = "retry: 1000\n\n";

/// A response body that lasts until the server shuts down or the client disconnects.
///
/// Frames are produced on demand: a slow client receives fewer and newer updates. The lifetime of the [`Connection`]
/// closes that of a client that does not read once nothing could be written for 30 seconds. Until then, frames fill
/// the socket buffers of both machines.
pub(super) struct EventStream {
    inspector: Arc<InspectorInner>,
    session: PageSession,
    connection: Connection,
    ticks: Interval,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    last_sent: Option<Instant>,
    _slot: StreamSlot,
}

/// A permit for one open event stream.
pub(super) struct StreamSlot {
    inspector: Arc<InspectorInner>,
    _permit: OwnedSemaphorePermit,
}

impl StreamSlot {
    /// Acquires a slot; `None` if all are in use.
    pub(super) fn acquire(inspector: &Arc<InspectorInner>) -> Option<Self> {
        let Ok(permit) = Arc::clone(&inspector.slots).try_acquire_owned() else {
            inspector.metrics.refused.increment(1);
            return None;
        };
        inspector.metrics.streams.increment(1.0);
        Some(StreamSlot { inspector: Arc::clone(inspector), _permit: permit })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.inspector.metrics.streams.decrement(1.0);
    }
}

impl EventStream {
    pub(super) fn new(
        inspector: &Arc<InspectorInner>,
        session: PageSession,
        connection: Connection,
        slot: StreamSlot,
    ) -> Self {
        let mut ticks = interval(UPDATE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shutdown = connection.shutdown.clone();
        let shutdown = Box::pin(async move { shutdown.requested().await });
        EventStream {
            inspector: Arc::clone(inspector),
            session,
            connection,
            ticks,
            shutdown,
            last_sent: None,
            _slot: slot,
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.shutdown.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            ready!(this.ticks.poll_tick(context));
            let now = Instant::now();
            let text = match this.session.update(&this.inspector, now) {
                Some(changes) if this.last_sent.is_none() => format!("{RECONNECT}{}", frame(&changes)),
                Some(changes) => frame(&changes),
                None if this.last_sent.is_some_and(|sent| now.duration_since(sent) < HEARTBEAT) => continue,
                None => "event: alive\ndata:\n\n".to_owned(),
            };
            this.last_sent = Some(now);
            this.connection.extend();
            return Poll::Ready(Some(Ok(Frame::data(text.into()))));
        }
    }
}

/// Formats changes as an event. Compact JSON contains no line breaks, so the event is one line.
pub(super) fn frame(changes: &Value) -> String {
    format!("data: {changes}\n\n")
}
