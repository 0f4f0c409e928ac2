//! Waiting for the end: [`Flush`] and [`Shutdown`].

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::broadcaster::Shared;
use super::metrics::{self, Failed};

/// Waits until events have been written, held back, or given up. See [`EventRecorder::flush`](super::EventRecorder::flush).
///
/// It waits for what was recorded before it was made. Dropping it changes nothing for the events.
#[must_use = "awaiting it tells when the events are written"]
pub struct Flush {
    shared: Arc<Shared>,
    mark: u64,
}

/// Waits until everything that ran for a broadcaster has ended. See
/// [`EventRecorder::shutdown`](super::EventRecorder::shutdown).
///
/// The end has begun when this exists, and goes on when it is dropped.
#[must_use = "awaiting it tells when the last event is written"]
pub struct Shutdown {
    shared: Arc<Shared>,
    controller: String,
    mark: u64,
}

/// Not all events were written in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{events} events were not written in time")]
#[non_exhaustive]
pub struct Unfinished {
    /// How many, at least: those that were put together count once.
    pub events: usize,
}

impl Flush {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Flush { mark: shared.events.mark(), shared: Arc::clone(shared) }
    }

    /// Waits no longer than that. The events are still written after it.
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
    /// Of a broadcaster that has been told to end.
    pub(crate) fn new(shared: &Arc<Shared>, controller: &str) -> Self {
        Shutdown { mark: shared.tasks.mark(), controller: controller.to_owned(), shared: Arc::clone(shared) }
    }

    /// Waits no longer than that. What has not been written by then is given up, and nothing runs any more.
    pub async fn within(self, limit: Duration) -> Result<(), Unfinished> {
        let (shared, controller) = (Arc::clone(&self.shared), self.controller.clone());
        if timeout(limit, self.into_future()).await.is_ok() {
            return Ok(());
        }
        let events = shared.events.held_before(u64::MAX);
        shared.abort();
        metrics::failed(&controller, Failed::Shutdown, events);
        tracing::warn!(controller, events, "there was no time to write the last events");
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
