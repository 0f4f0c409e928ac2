//! Waiting for events to be written: [`Flush`] and [`Shutdown`].

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::broadcaster::BroadcasterShared;
use super::metrics::{self, Failed};

/// Waits until events have been written, filtered or given up. See
/// [`EventRecorder::flush`](super::EventRecorder::flush).
///
/// It covers the events recorded before it was created. Dropping it does not affect them.
#[must_use = "awaiting it tells when the events are written"]
pub struct Flush {
    shared: Arc<BroadcasterShared>,
    mark: u64,
}

/// Waits until all tasks of a broadcaster have ended. See [`EventRecorder::shutdown`](super::EventRecorder::shutdown).
///
/// The shutdown has started when this value exists, and continues if it is dropped.
#[must_use = "awaiting it tells when the last event is written"]
pub struct Shutdown {
    shared: Arc<BroadcasterShared>,
    controller: String,
    mark: u64,
}

/// Not all events were written in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{events} events were not written in time")]
#[non_exhaustive]
pub struct Unfinished {
    /// How many, at least: aggregated events count once.
    pub events: usize,
}

impl Flush {
    pub(crate) fn new(shared: &Arc<BroadcasterShared>) -> Self {
        Flush { mark: shared.events.mark(), shared: Arc::clone(shared) }
    }

    /// Waits no longer than this. The events are still written afterwards.
    pub async fn within(self, limit: Duration) -> Result<(), Unfinished> {
        let (shared, mark) = (Arc::clone(&self.shared), self.mark);
        let flushed = timeout(limit, self.into_future()).await;
        flushed.map_err(|_| Unfinished { events: shared.events.held_before(mark) })
    }
}

impl IntoFuture for Flush {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.shared.start();
            self.shared.events.released(self.mark).await;
        })
    }
}

impl Shutdown {
    /// Returns the future of a broadcaster that is shutting down.
    pub(crate) fn new(shared: &Arc<BroadcasterShared>, controller: &str) -> Self {
        Shutdown { mark: shared.tasks.mark(), controller: controller.to_owned(), shared: Arc::clone(shared) }
    }

    /// Waits no longer than this. Events that are not written by then are given up, and all tasks end.
    pub async fn within(self, limit: Duration) -> Result<(), Unfinished> {
        let (shared, controller) = (Arc::clone(&self.shared), self.controller.clone());
        if timeout(limit, self.into_future()).await.is_ok() {
            return Ok(());
        }
        let events = shared.events.held_before(u64::MAX);
        shared.abort();
        metrics::failed(&controller, Failed::Shutdown, events);
        tracing::warn!(controller, events, "shutdown deadline reached; events lost");
        Err(Unfinished { events })
    }
}

impl IntoFuture for Shutdown {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.shared.start();
            self.shared.tasks.released(self.mark).await;
        })
    }
}

impl fmt::Debug for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flush").field("events", &self.shared.events.held_before(self.mark)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("tasks", &self.shared.tasks.held_before(self.mark)).finish_non_exhaustive()
    }
}
