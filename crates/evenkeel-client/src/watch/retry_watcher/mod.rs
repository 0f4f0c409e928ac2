//! [`RetryWatcher`]: a watch that survives disconnects.

mod machine;

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel_core::{ResourceVersion, WatchEvent};
use futures_core::{FusedStream, Stream};
use tokio::time::{Instant, Sleep, sleep_until};

use self::machine::{WatchAction, WatchMachine};
use crate::error::Error;

/// A source of watches. Every closure from a [`ResourceVersion`] to a future watch is one.
///
/// A watch must return every event after its resource version. It should request bookmarks: they advance the resource
/// version, so that it is less likely to be too old after a disconnect.
pub trait WatchSource<K> {
    /// The events of a watch. They end with the connection.
    type Events: Stream<Item = Result<WatchEvent<K>, Error>> + Unpin;
    /// A watch that is being opened.
    type Watching: Future<Output = Result<Self::Events, Error>>;

    /// Opens a watch from this version.
    fn watch(&self, from: &ResourceVersion) -> Self::Watching;
}

impl<K, W, F, S> WatchSource<K> for W
where
    W: Fn(ResourceVersion) -> F,
    F: Future<Output = Result<S, Error>>,
    S: Stream<Item = Result<WatchEvent<K>, Error>> + Unpin,
{
    type Events = S;
    type Watching = F;

    fn watch(&self, from: &ResourceVersion) -> F {
        self(from.clone())
    }
}

/// A watch that survives disconnects: when it ends, it is reopened from the last resource version.
///
/// # Guarantees
///
/// - Every event after the first version is returned once and in the server's order, however often the connection is
///   lost.
/// - It returns Added, Modified and Deleted events, and one Error at the end unless it was stopped. It consumes
///   bookmarks.
/// - A watch that ends or cannot be opened is reopened without limit, but at most once per second, counted from the
///   last opening, and not before the server's `Retry-After` (at most five minutes). Drop it, or await
///   [`next`](Self::next) with a timeout, to stop.
/// - It ends with an Error when retrying cannot help: 401, 403 or an invalid request; an expired resource version (410
///   in the stream, or five times in a row when opening: relist and start again); an event without a readable resource
///   version. [`failure`](Self::failure) then returns the error, if a request failed.
/// - It runs only while it is polled. [`resource_version`](Self::resource_version) is that of the last returned event,
///   never of one that was not returned, so that another watcher can start there.
///
/// Dropping it ends the watch, as does [`stop`](Self::stop).
pub struct RetryWatcher<K, W: WatchSource<K>> {
    source: W,
    machine: WatchMachine,
    state: WatchState<W::Watching, W::Events>,
    failure: Option<Error>,
    kind: PhantomData<fn() -> K>,
}

enum WatchState<F, S> {
    /// The next poll opens a watch.
    Due,
    Waiting(Pin<Box<Sleep>>),
    Opening(Pin<Box<F>>),
    Reading(S),
    Ended,
}

// Pinned fields are boxed.
impl<K, W: WatchSource<K>> Unpin for RetryWatcher<K, W> {}

impl<K, W: WatchSource<K>> RetryWatcher<K, W> {
    /// Creates a watch of the events after `from`, the version of a list or of an object. Nothing is sent until it is
    /// polled.
    ///
    /// # Errors
    /// The version is empty or `0`: the first events would depend on the server.
    pub fn new(from: &ResourceVersion, source: W) -> Result<Self, Error> {
        let machine = WatchMachine::new(from)?;
        Ok(RetryWatcher { source, machine, state: WatchState::Due, failure: None, kind: PhantomData })
    }

    /// Sets how many times in a row the server may reject the version as too old before that is returned as the last
    /// event; 5 by default, and at least 1.
    pub fn expired_attempts(mut self, attempts: u32) -> Self {
        self.machine.expired_attempts = attempts.max(1);
        self
    }

    /// Returns the next event; `None` at the end. Cancel safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<WatchEvent<K>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the resource version of the last returned event, or of a later bookmark.
    pub fn resource_version(&self) -> &str {
        self.machine.version()
    }

    /// Ends the watch. A watcher that starts at [`resource_version`](Self::resource_version) receives the events that
    /// were not returned.
    pub fn stop(&mut self) {
        self.state = WatchState::Ended;
    }

    /// Returns the error of the request that ended the watch, if a request did.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Returns the source, to start again, and the error of the request that ended the watch.
    pub(crate) fn into_parts(self) -> (W, Option<Error>) {
        (self.source, self.failure)
    }

    fn open(&mut self) {
        self.machine.opening(Instant::now());
        let from = ResourceVersion::new(self.machine.version());
        self.state = WatchState::Opening(Box::pin(self.source.watch(&from)));
    }

    /// Applies an action. Returns the last event if the watch has ended.
    fn apply(&mut self, next: WatchAction) -> Option<WatchEvent<K>> {
        match next {
            WatchAction::Forward | WatchAction::Read => None,
            WatchAction::WatchAt(at) if at <= Instant::now() => {
                self.state = WatchState::Due;
                None
            }
            WatchAction::WatchAt(at) => {
                self.state = WatchState::Waiting(Box::pin(sleep_until(at)));
                None
            }
            WatchAction::Fail(status) => {
                self.state = WatchState::Ended;
                Some(WatchEvent::Error(status))
            }
        }
    }
}

impl<K, W: WatchSource<K>> Stream for RetryWatcher<K, W> {
    type Item = WatchEvent<K>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent<K>>> {
        let this = &mut *self;
        loop {
            let next = match &mut this.state {
                WatchState::Ended => return Poll::Ready(None),
                WatchState::Due => {
                    this.open();
                    continue;
                }
                WatchState::Waiting(wait) => {
                    ready!(wait.as_mut().poll(context));
                    this.state = WatchState::Due;
                    continue;
                }
                WatchState::Opening(watching) => match ready!(watching.as_mut().poll(context)) {
                    Ok(events) => {
                        this.machine.opened();
                        this.state = WatchState::Reading(events);
                        continue;
                    }
                    Err(error) => {
                        let next = this.machine.failed(&error, Instant::now());
                        if matches!(next, WatchAction::Fail(_)) {
                            this.failure = Some(error);
                        } else {
                            tracing::warn!(version = this.machine.version(), %error, "opening the watch failed; retrying");
                        }
                        next
                    }
                },
                WatchState::Reading(events) => match ready!(Pin::new(events).poll_next(context)) {
                    Some(Ok(event)) => match this.machine.event(&event, Instant::now()) {
                        WatchAction::Forward => return Poll::Ready(Some(event)),
                        next => next,
                    },
                    Some(Err(error)) => {
                        tracing::debug!(version = this.machine.version(), %error, "watch event cannot be decoded");
                        this.machine.undecodable(&error, Instant::now())
                    }
                    None => {
                        tracing::debug!(version = this.machine.version(), "watch closed; reopening");
                        this.machine.ended(Instant::now())
                    }
                },
            };
            if let Some(last) = this.apply(next) {
                return Poll::Ready(Some(last));
            }
        }
    }
}

impl<K, W: WatchSource<K>> FusedStream for RetryWatcher<K, W> {
    fn is_terminated(&self) -> bool {
        matches!(self.state, WatchState::Ended)
    }
}

impl<K, W: WatchSource<K>> fmt::Debug for RetryWatcher<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            WatchState::Due => "due",
            WatchState::Waiting(_) => "waiting",
            WatchState::Opening(_) => "opening",
            WatchState::Reading(_) => "reading",
            WatchState::Ended => "ended",
        };
        f.debug_struct("RetryWatcher").field("version", &self.machine.version()).field("state", &state).finish()
    }
}

#[cfg(test)]
mod tests;
