//! [`until`]: reads a watch until conditions are met.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel_core::WatchEvent;
use futures_core::Stream;

use crate::error::Error;
use crate::transport::BoxError;
use crate::wait::Interrupted;

/// A condition on an event, created by [`when`].
pub struct EventCondition<'a, K>(Box<ConditionFn<'a, K>>);

type ConditionFn<'a, K> = dyn FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send + 'a;

/// Creates a condition for [`until`]: met, not met, or an error that ends it.
pub fn when<'a, K>(
    condition: impl FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send + 'a,
) -> EventCondition<'a, K> {
    EventCondition(Box::new(condition))
}

/// The item of a stream of events: an event, or a `Result` with one.
pub trait WatchItem<K>: sealed::Sealed {
    /// Returns the event or the error.
    fn into_event(self) -> Result<WatchEvent<K>, Error>;
}

impl<K> WatchItem<K> for WatchEvent<K> {
    fn into_event(self) -> Result<WatchEvent<K>, Error> {
        Ok(self)
    }
}

impl<K> WatchItem<K> for Result<WatchEvent<K>, Error> {
    fn into_event(self) -> Result<WatchEvent<K>, Error> {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl<K> Sealed for evenkeel_core::WatchEvent<K> {}
    impl<K> Sealed for Result<evenkeel_core::WatchEvent<K>, crate::error::Error> {}
}

/// Reads events until all conditions have been met, one after the other, and then ends the watch.
///
/// Each event is passed to the current condition; once it is met, the next condition receives the same event first.
/// Error events are passed like all others. Returns the last event, or `None` if there were no conditions.
///
/// The events may come from a [`RetryWatcher`](super::RetryWatcher), which survives disconnects, or from a plain
/// [`WatchStream`](crate::WatchStream), which ends with its connection.
///
/// ```
/// # async fn example<W>(pods: evenkeel_client::watch::RetryWatcher<k8s_openapi::api::core::v1::Pod, W>)
/// # -> Result<(), Box<dyn std::error::Error>>
/// # where W: evenkeel_client::watch::WatchSource<k8s_openapi::api::core::v1::Pod> {
/// use std::time::Duration;
/// use evenkeel_client::watch::{until, when};
/// use evenkeel_core::WatchEvent;
///
/// let added_and_deleted = until(pods, [
///     when(|event| Ok(matches!(event, WatchEvent::Added(pod) if pod.key().name() == "web-0"))),
///     when(|event| Ok(matches!(event, WatchEvent::Deleted(pod) if pod.key().name() == "web-0"))),
/// ]);
/// added_and_deleted.stop_on(tokio::time::sleep(Duration::from_secs(30))).await?;
/// # Ok(())
/// # }
/// ```
pub fn until<'a, K, S>(events: S, conditions: impl IntoIterator<Item = EventCondition<'a, K>>) -> Until<'a, K, S>
where
    S: Stream<Item: WatchItem<K>> + Unpin,
{
    Until { events: Some(events), conditions: conditions.into_iter().collect(), last: None, stop: None }
}

/// The future of [`until`].
#[must_use = "nothing is read until this is awaited"]
pub struct Until<'a, K, S> {
    /// Dropped at the end, which ends the watch.
    events: Option<S>,
    conditions: VecDeque<EventCondition<'a, K>>,
    last: Option<WatchEvent<K>>,
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
}

impl<'a, K, S> Until<'a, K, S> {
    /// Stops with an error, which contains the last event, when this future is ready, such as a
    /// [`sleep`](tokio::time::sleep).
    pub fn stop_on(mut self, stop: impl Future + Send + 'a) -> Self {
        self.stop = Some(Box::pin(async move {
            stop.await;
        }));
        self
    }

    /// Passes the last event to the current condition, and to the following ones as long as they are met. Returns
    /// whether none is left.
    fn check(&mut self) -> Result<bool, BoxError> {
        while let Some(condition) = self.conditions.front_mut() {
            let Some(event) = &self.last else { return Ok(false) };
            if !(condition.0)(event)? {
                return Ok(false);
            }
            self.conditions.pop_front();
        }
        Ok(true)
    }

    fn fail(&mut self, reason: UntilFailure) -> UntilError<K> {
        self.events = None;
        UntilError { last: self.last.take(), reason }
    }
}

impl<K, S> Future for Until<'_, K, S>
where
    S: Stream<Item: WatchItem<K>> + Unpin,
{
    type Output = Result<Option<WatchEvent<K>>, UntilError<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.conditions.is_empty() {
            this.events = None;
            return Poll::Ready(Ok(this.last.take()));
        }
        loop {
            if let Some(stop) = &mut this.stop
                && stop.as_mut().poll(context).is_ready()
            {
                this.stop = None;
                return Poll::Ready(Err(this.fail(UntilFailure::Interrupted(Interrupted::Stopped))));
            }
            let Some(events) = &mut this.events else { return Poll::Ready(Err(this.fail(UntilFailure::Closed))) };
            match ready!(Pin::new(events).poll_next(context)).map(WatchItem::into_event) {
                None => return Poll::Ready(Err(this.fail(UntilFailure::Closed))),
                Some(Err(error)) => return Poll::Ready(Err(this.fail(UntilFailure::Watch(error)))),
                Some(Ok(event)) => this.last = Some(event),
            }
            match this.check() {
                Ok(false) => {}
                Ok(true) => {
                    this.events = None;
                    return Poll::Ready(Ok(this.last.take()));
                }
                Err(error) => return Poll::Ready(Err(this.fail(UntilFailure::Condition(error)))),
            }
        }
    }
}

impl<K, S> Unpin for Until<'_, K, S> {}

impl<K, S> fmt::Debug for Until<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Until").field("conditions_left", &self.conditions.len()).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for EventCondition<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventCondition")
    }
}

/// Why [`until`] ended before its conditions were met, with the last event.
pub struct UntilError<K> {
    /// The last event, if there was one.
    pub last: Option<WatchEvent<K>>,
    /// Why it ended.
    pub reason: UntilFailure,
}

/// Why [`until`] ended before its conditions were met.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilFailure {
    /// The watch ended.
    #[error("the watch closed before the conditions were met")]
    Closed,
    /// It was stopped.
    #[error("the conditions were not met")]
    Interrupted(#[source] Interrupted),
    /// A condition failed.
    #[error("a condition failed")]
    Condition(#[source] BoxError),
    /// The watch returned an error.
    #[error("{0}")]
    Watch(Error),
}

impl<K> fmt::Display for UntilError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.reason, f)
    }
}

impl<K> fmt::Debug for UntilError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<K> std::error::Error for UntilError<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            UntilFailure::Watch(error) => error.source(),
            reason => reason.source(),
        }
    }
}

#[cfg(test)]
mod tests;
