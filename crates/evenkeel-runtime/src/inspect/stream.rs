//! [`Stream`]: what is told to a page as it happens, as server-sent events.

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

use super::Inner;
use super::viewer::Viewer;
use crate::serve::{Line, stop_requested};

/// How often a page is told what is new.
pub(super) const TURN: Duration = Duration::from_millis(250);
/// When nothing is new for so long, it is told that there is still somebody here.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a browser waits before it comes back.
const RECONNECT: &str = "retry: 1000\n\n";

/// The body of an answer that goes on until the server ends or the page is gone.
///
/// It is made as it is read: a page that reads slowly is told less often, and what it is told then is newer. One that does not
/// read at all is dropped by its [`Line`] when nothing more could be written for half a minute. Before that, what is told goes into
/// the buffers of both machines, which take a while to fill.
pub(super) struct Stream {
    inspector: Arc<Inner>,
    viewer: Viewer,
    line: Line,
    turns: Interval,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    told: Option<Instant>,
    _place: Place,
}

/// One of the streams that there may be.
pub(super) struct Place {
    inspector: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// A place for one more, if there is one.
    pub(super) fn take(inspector: &Arc<Inner>) -> Option<Self> {
        let Ok(permit) = Arc::clone(&inspector.places).try_acquire_owned() else {
            inspector.metrics.refused.increment(1);
            return None;
        };
        inspector.metrics.streams.increment(1.0);
        Some(Place { inspector: Arc::clone(inspector), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inspector.metrics.streams.decrement(1.0);
    }
}

impl Stream {
    pub(super) fn new(inspector: &Arc<Inner>, viewer: Viewer, line: Line, place: Place) -> Self {
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = line.stopped.clone();
        let stopped = Box::pin(async move { stop_requested(&mut stopped).await });
        Stream { inspector: Arc::clone(inspector), viewer, line, turns, stopped, told: None, _place: place }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        loop {
            ready!(this.turns.poll_tick(context));
            let now = Instant::now();
            let text = match this.viewer.look(&this.inspector, now) {
                Some(news) if this.told.is_none() => format!("{RECONNECT}{}", frame(&news)),
                Some(news) => frame(&news),
                None if this.told.is_some_and(|told| now.duration_since(told) < HEARTBEAT) => continue,
                None => "event: alive\ndata:\n\n".to_owned(),
            };
            this.told = Some(now);
            this.line.prolong();
            return Poll::Ready(Some(Ok(Frame::data(text.into()))));
        }
    }
}

/// What is new as an event. JSON has no line breaks but those that it is laid out with, so that this is one line.
pub(super) fn frame(news: &Value) -> String {
    format!("data: {news}\n\n")
}
