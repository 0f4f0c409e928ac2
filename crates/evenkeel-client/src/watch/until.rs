//! [`until`]: reading a watch until events have come that are waited for.

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

/// What is asked of an event; made by [`when`].
pub struct EventCondition<'a, K>(Box<Ask<'a, K>>);

type Ask<'a, K> = dyn FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send + 'a;

/// A condition for [`until`]: yes, not yet, or an error that ends it.
pub fn when<'a, K>(
    condition: impl FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send + 'a,
) -> EventCondition<'a, K> {
    EventCondition(Box::new(condition))
}

/// What a stream of events yields: an event, or an event or an error.
pub trait WatchItem<K>: sealed::Sealed {
    /// The event, or why there is none.
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
/// A condition is asked about each event until it says yes; the next one is asked about that same event first. Error
/// events reach the conditions like any other. The result is the last event that came, which is `None` if there were no
/// conditions to wait for.
///
/// The events may be a [`RetryWatcher`](super::RetryWatcher), which survives disconnects, or a plain
/// [`WatchStream`](crate::WatchStream), with which the end of the connection is the end of waiting.
///
/// ```
/// # async fn example<W>(pods: evenkeel_client::watch::RetryWatcher<k8s_openapi::api::core::v1::Pod, W>)
/// # -> Result<(), Box<dyn std::error::Error>>
/// # where W: evenkeel_client::watch::WatchSource<k8s_openapi::api::core::v1::Pod> {
/// use std::time::Duration;
/// use evenkeel_client::watch::{until, when};
/// use evenkeel_core::WatchEvent;
///
/// let came_and_went = until(pods, [
///     when(|event| Ok(matches!(event, WatchEvent::Added(pod) if pod.key().name() == "web-0"))),
///     when(|event| Ok(matches!(event, WatchEvent::Deleted(pod) if pod.key().name() == "web-0"))),
/// ]);
/// came_and_went.stop_on(tokio::time::sleep(Duration::from_secs(30))).await?;
/// # Ok(())
/// # }
/// ```
pub fn until<'a, K, S>(events: S, conditions: impl IntoIterator<Item = EventCondition<'a, K>>) -> Until<'a, K, S>
where
    S: Stream<Item: WatchItem<K>> + Unpin,
{
    Until { events: Some(events), conditions: conditions.into_iter().collect(), last: None, stop: None }
}

/// Reading events until conditions have been met; see [`until`].
#[must_use = "nothing is read until this is awaited"]
pub struct Until<'a, K, S> {
    /// Taken away at the end, which ends the watch.
    events: Option<S>,
    conditions: VecDeque<EventCondition<'a, K>>,
    last: Option<WatchEvent<K>>,
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
}

impl<'a, K, S> Until<'a, K, S> {
    /// Gives up when this future is ready, such as a [`sleep`](tokio::time::sleep), and says what the last event was.
    pub fn stop_on(mut self, stop: impl Future + Send + 'a) -> Self {
        self.stop = Some(Box::pin(async move {
            stop.await;
        }));
        self
    }

    /// Asks the condition that is due about the last event, and when that has been met the one behind it, and so on.
    /// Answers whether none is left.
    fn ask(&mut self) -> Result<bool, BoxError> {
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
            match this.ask() {
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

/// Why [`until`] ended before its conditions were met, and what the last event was.
pub struct UntilError<K> {
    /// The last event that came, if one did.
    pub last: Option<WatchEvent<K>>,
    /// Why it ended.
    pub reason: UntilFailure,
}

/// Why [`until`] ended before its conditions were met.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilFailure {
    /// The watch ended.
    #[error("the watch closed before what was waited for came")]
    Closed,
    /// It was told to stop.
    #[error("what was waited for has not come")]
    Interrupted(#[source] Interrupted),
    /// A condition failed.
    #[error("a condition failed")]
    Condition(#[source] BoxError),
    /// Something came that is no event.
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
