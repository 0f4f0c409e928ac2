//! Waiting for several informers, or anything else, at once: [`WaitForSync`].

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::source::{BoxError, BoxFuture};

/// How often what can only be asked is asked.
const POLL: Duration = Duration::from_millis(100);

/// Something that is done at some time, and then stays so: client-go's `DoneChecker`. Informers and the registrations of
/// handlers are.
pub trait DoneChecker {
    /// What it is called in logs and errors.
    fn name(&self) -> Cow<'_, str>;

    /// Whether it is done.
    fn is_done(&self) -> bool;

    /// Ready when it is done.
    fn done(&self) -> BoxFuture<'static, ()>;
}

/// One of the things that a [`WaitForSync`] waits for: a [`DoneChecker`], or a name and a future.
pub struct Awaited {
    name: String,
    done: BoxFuture<'static, ()>,
}

impl Awaited {
    /// Waits until this says yes: it is asked at once, and then every 100 ms. For what cannot be waited for in a better way.
    pub fn polled(name: impl Into<String>, is_done: impl Fn() -> bool + Send + 'static) -> Self {
        let done = async move {
            while !is_done() {
                tokio::time::sleep(POLL).await;
            }
        };
        Awaited { name: name.into(), done: Box::pin(done) }
    }
}

impl<N: Into<String>, F: Future<Output = ()> + Send + 'static> From<(N, F)> for Awaited {
    fn from((name, done): (N, F)) -> Self {
        Awaited { name: name.into(), done: Box::pin(done) }
    }
}

impl<C: DoneChecker + ?Sized> From<&C> for Awaited {
    fn from(checker: &C) -> Self {
        Awaited { name: checker.name().into_owned(), done: checker.done() }
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Awaited").field(&self.name).finish()
    }
}

/// Waits for several things at once. A future; nothing happens before it is awaited, and it may be dropped at any time.
///
/// It is done when all of them are, and gives up when [`within`](Self::within) or [`unless`](Self::unless) say so, with an
/// error that names those that are not. What is done already counts, even if it is time to give up: waiting for nothing
/// never fails. If it has a name, it logs what it waits for, what is done, and what was given up.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_cache::wait::WaitForSync;
///
/// let error = WaitForSync::new("caches")
///     .on(("pods", async {}))
///     .on(("nodes", std::future::pending()))
///     .within(Duration::from_secs(10))
///     .await
///     .unwrap_err();
/// assert_eq!(error.unsynced(), ["nodes"]);
/// assert_eq!(error.to_string(), "timed out waiting for caches: nodes");
/// # });
/// ```
#[must_use = "nothing is waited for before it is awaited"]
pub struct WaitForSync {
    what: String,
    /// What is not done yet.
    waiting: Vec<Awaited>,
    /// Each says why to give up.
    limits: Vec<BoxFuture<'static, BoxError>>,
    has_begun: bool,
}

/// Waits for all of these, however long it takes, under a name for logs; nothing is logged if it is empty. For limits see
/// [`WaitForSync`], which this is.
pub fn wait_for_sync(what: impl Into<String>, awaited: impl IntoIterator<Item = impl Into<Awaited>>) -> WaitForSync {
    awaited.into_iter().fold(WaitForSync::new(what), WaitForSync::on)
}

impl WaitForSync {
    /// Waits for nothing yet. The name is for logs and errors; nothing is logged if it is empty.
    pub fn new(what: impl Into<String>) -> Self {
        WaitForSync { what: what.into(), waiting: Vec::new(), limits: Vec::new(), has_begun: false }
    }

    /// Waits for this as well.
    pub fn on(mut self, awaited: impl Into<Awaited>) -> Self {
        self.waiting.push(awaited.into());
        self
    }

    /// Gives up when this time is over. It begins when the waiting does.
    pub fn within(self, time: Duration) -> Self {
        self.unless(async move {
            tokio::time::sleep(time).await;
            TimeIsOver(time)
        })
    }

    /// Gives up when this is ready, and says what it says.
    pub fn unless<E: Into<BoxError>>(mut self, stop: impl Future<Output = E> + Send + 'static) -> Self {
        self.limits.push(Box::pin(async move { stop.await.into() }));
        self
    }

    fn has_name(&self) -> bool {
        !self.what.is_empty()
    }

    fn give_up(&mut self, cause: BoxError) -> SyncTimeout {
        let mut unsynced: Vec<String> = self.waiting.drain(..).map(|awaited| awaited.name).collect();
        unsynced.sort();
        if self.has_name() {
            tracing::error!(what = self.what, ?unsynced, %cause, "timed out waiting");
        }
        SyncTimeout { what: std::mem::take(&mut self.what), unsynced, cause }
    }
}

impl Future for WaitForSync {
    type Output = Result<(), SyncTimeout>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.has_begun, true) && this.has_name() {
            tracing::info!(what = this.what, "waiting");
        }
        let logs = this.has_name();
        this.waiting.retain_mut(|awaited| {
            let is_done = awaited.done.as_mut().poll(context).is_ready();
            if is_done && logs {
                tracing::info!(what = this.what, instance = awaited.name, "done waiting");
            }
            !is_done
        });
        if this.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let cause = this.limits.iter_mut().find_map(|limit| match limit.as_mut().poll(context) {
            Poll::Ready(cause) => Some(cause),
            Poll::Pending => None,
        });
        match cause {
            Some(cause) => Poll::Ready(Err(this.give_up(cause))),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for WaitForSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForSync").field("what", &self.what).field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Some of what was waited for is not done.
#[derive(Debug)]
pub struct SyncTimeout {
    what: String,
    unsynced: Vec<String>,
    cause: BoxError,
}

impl SyncTimeout {
    /// What is not done, sorted by name.
    pub fn unsynced(&self) -> &[String] {
        &self.unsynced
    }

    /// Why there was no waiting on. The same as [`source`](std::error::Error::source).
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.cause
    }
}

impl fmt::Display for SyncTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out waiting")?;
        if !self.what.is_empty() {
            write!(f, " for {}", self.what)?;
        }
        write!(f, ": {}", self.unsynced.join(", "))
    }
}

impl std::error::Error for SyncTimeout {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

/// The time that was given is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {0:?}")]
pub struct TimeIsOver(pub Duration);

#[cfg(test)]
mod tests;
