//! [`RetryWatcher`]: a watch that survives disconnects.

mod course;

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel_core::{ResourceVersion, WatchEvent};
use futures_core::{FusedStream, Stream};
use tokio::time::{Instant, Sleep, sleep_until};

use self::course::{Course, Next};
use crate::error::Error;

/// Where watches come from. Every closure from a [`ResourceVersion`] to a future watch is one.
///
/// A watch must show everything that happens after the version it begins at. It should ask for bookmarks: the further the
/// version gets by them, the less likely it is to be too old after a disconnect.
pub trait WatchSource<K> {
    /// The events of a watch. They end when the connection does.
    type Events: Stream<Item = Result<WatchEvent<K>, Error>> + Unpin;
    /// A watch that is being asked for.
    type Watching: Future<Output = Result<Self::Events, Error>>;

    /// Asks for a watch from this version.
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

/// A watch that survives disconnects: whenever it ends, it is asked for again, from where it had come to.
///
/// # What may be assumed
///
/// - Every change after the first version comes, in the server's order and once, however often the connection is lost.
/// - What comes is Added, Modified, Deleted, and at the very end, if the end was not asked for, one Error. Bookmarks are
///   taken note of and do not come.
/// - A watch that ends, or cannot be had, is asked for again: for ever, but at most once per second, counted from when the
///   last one was asked for, and not before the server said (five minutes at the most). Whoever does not want to wait for ever drops it, or awaits
///   [`next`](Self::next) with a timeout.
/// - It ends with an Error when going on is no use (401, 403, a request that makes no sense), when the server no longer
///   knows what happened after the version (410 in the stream, or five times in a row to the request: list, and begin
///   again), or when an event comes of which not even the version can be told. Afterwards, [`failure`](Self::failure)
///   has the details if it was a request that failed.
/// - It runs when it is polled and only then. [`resource_version`](Self::resource_version) is that of the last event that
///   was handed out, never of one that was not, so that another watcher can begin there.
///
/// Dropping it ends the watch; so does [`stop`](Self::stop).
pub struct RetryWatcher<K, W: WatchSource<K>> {
    source: W,
    course: Course,
    phase: Phase<W::Watching, W::Events>,
    failure: Option<Error>,
    kind: PhantomData<fn() -> K>,
}

enum Phase<F, S> {
    /// Nothing is under way; the next poll asks for a watch.
    Due,
    Waiting(Pin<Box<Sleep>>),
    Opening(Pin<Box<F>>),
    Reading(S),
    Ended,
}

// What is pinned is in a box of its own.
impl<K, W: WatchSource<K>> Unpin for RetryWatcher<K, W> {}

impl<K, W: WatchSource<K>> RetryWatcher<K, W> {
    /// A watch of what happens after `from`, which is the version of a list or of an object. Nothing is sent before it is
    /// polled.
    ///
    /// # Errors
    /// If the version is empty or `0`: what comes first from there depends on the server, so nothing could be promised.
    pub fn new(from: &ResourceVersion, source: W) -> Result<Self, Error> {
        let course = Course::new(from)?;
        Ok(RetryWatcher { source, course, phase: Phase::Due, failure: None, kind: PhantomData })
    }

    /// How often in a row the server may refuse to watch because the version is too old, before that is handed out as the
    /// last event; 5 unless said, and at least 1.
    pub fn expired_attempts(mut self, attempts: u32) -> Self {
        self.course.expired_attempts = attempts.max(1);
        self
    }

    /// The next event; `None` when there will be no more. May be dropped and called again: no event is lost.
    pub async fn next(&mut self) -> Option<WatchEvent<K>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// How far it has come: the version of the last event that was handed out, or of a bookmark behind it.
    pub fn resource_version(&self) -> &str {
        self.course.version()
    }

    /// Ends the watch; no more events come. An event that has not been handed out is not lost to a watcher that begins at
    /// [`resource_version`](Self::resource_version). Calling it again does nothing.
    pub fn stop(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Why it ended, if it ended because it could not watch.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The source, to begin anew with, and why it ended if it could not watch.
    pub(crate) fn into_parts(self) -> (W, Option<Error>) {
        (self.source, self.failure)
    }

    fn open(&mut self) {
        self.course.begin(Instant::now());
        let from = ResourceVersion::new(self.course.version());
        self.phase = Phase::Opening(Box::pin(self.source.watch(&from)));
    }

    /// Does what is next; answers with the last event if there is nothing after it.
    fn go(&mut self, next: Next) -> Option<WatchEvent<K>> {
        match next {
            Next::Forward | Next::Read => None,
            Next::WatchAt(at) if at <= Instant::now() => {
                self.phase = Phase::Due;
                None
            }
            Next::WatchAt(at) => {
                self.phase = Phase::Waiting(Box::pin(sleep_until(at)));
                None
            }
            Next::Fail(status) => {
                self.phase = Phase::Ended;
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
            let next = match &mut this.phase {
                Phase::Ended => return Poll::Ready(None),
                Phase::Due => {
                    this.open();
                    continue;
                }
                Phase::Waiting(wait) => {
                    ready!(wait.as_mut().poll(context));
                    this.phase = Phase::Due;
                    continue;
                }
                Phase::Opening(watching) => match ready!(watching.as_mut().poll(context)) {
                    Ok(events) => {
                        this.course.established();
                        this.phase = Phase::Reading(events);
                        continue;
                    }
                    Err(error) => {
                        let next = this.course.failed(&error, Instant::now());
                        if matches!(next, Next::Fail(_)) {
                            this.failure = Some(error);
                        } else {
                            tracing::warn!(version = this.course.version(), %error, "no watch; it is asked for again");
                        }
                        next
                    }
                },
                Phase::Reading(events) => match ready!(Pin::new(events).poll_next(context)) {
                    Some(Ok(event)) => match this.course.event(&event, Instant::now()) {
                        Next::Forward => return Poll::Ready(Some(event)),
                        next => next,
                    },
                    Some(Err(error)) => {
                        tracing::debug!(version = this.course.version(), %error, "the watch makes no sense");
                        this.course.nonsense(&error, Instant::now())
                    }
                    None => {
                        tracing::debug!(version = this.course.version(), "the watch ended; it is asked for again");
                        this.course.ended(Instant::now())
                    }
                },
            };
            if let Some(last) = this.go(next) {
                return Poll::Ready(Some(last));
            }
        }
    }
}

impl<K, W: WatchSource<K>> FusedStream for RetryWatcher<K, W> {
    fn is_terminated(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }
}

impl<K, W: WatchSource<K>> fmt::Debug for RetryWatcher<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Due => "due",
            Phase::Waiting(_) => "waiting",
            Phase::Opening(_) => "opening",
            Phase::Reading(_) => "reading",
            Phase::Ended => "ended",
        };
        f.debug_struct("RetryWatcher").field("version", &self.course.version()).field("phase", &phase).finish()
    }
}

#[cfg(test)]
mod tests;
