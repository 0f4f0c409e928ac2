//! [`WaitForSync`]: waits for several informers or other conditions at once.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::informer::{Registration, SharedInformer};
use crate::source::{BoxError, BoxFuture};

/// Interval of polled conditions.
const POLL: Duration = Duration::from_millis(100);

/// A condition that becomes true once and stays so: client-go's `DoneChecker`. Informers and registrations implement it.
pub trait DoneChecker {
    /// Returns the name in logs and errors.
    fn name(&self) -> Cow<'_, str>;

    /// Returns `true` if the condition holds.
    fn is_done(&self) -> bool;

    /// Returns a future that is ready when the condition holds.
    fn done(&self) -> BoxFuture<'static, ()>;
}

impl<K> DoneChecker for SharedInformer<K> {
    fn name(&self) -> Cow<'_, str> {
        format!("informer {}", self.name()).into()
    }

    fn is_done(&self) -> bool {
        self.has_synced()
    }

    fn done(&self) -> BoxFuture<'static, ()> {
        self.synced_or_never()
    }
}

impl DoneChecker for Registration {
    fn name(&self) -> Cow<'_, str> {
        self.to_string().into()
    }

    fn is_done(&self) -> bool {
        self.has_synced()
    }

    fn done(&self) -> BoxFuture<'static, ()> {
        self.synced_or_never()
    }
}

/// A condition of a [`WaitForSync`]: a [`DoneChecker`], or a name and a future.
pub struct Awaited {
    name: String,
    done: BoxFuture<'static, ()>,
}

impl Awaited {
    /// Returns a condition that is polled at once, and then every 100 ms.
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

/// Waits for several conditions at once. It is a lazy future, and cancel safe.
///
/// It completes when all conditions hold, and fails at the limits of [`within`](Self::within) and [`unless`](Self::unless)
/// with an error that names the others. Conditions are checked before limits: waiting for nothing never fails. With a name
/// it logs start, completed conditions and failure.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_cache::compat::WaitForSync;
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
#[must_use = "does nothing until awaited"]
pub struct WaitForSync {
    what: String,
    /// Conditions that do not hold yet.
    waiting: Vec<Awaited>,
    /// Each resolves to the cause of the failure.
    limits: Vec<BoxFuture<'static, BoxError>>,
    has_begun: bool,
}

/// Returns a future that waits for all conditions, with a name for logs; an empty name disables them. [`WaitForSync`] has
/// limits.
pub fn wait_for_sync(what: impl Into<String>, awaited: impl IntoIterator<Item = impl Into<Awaited>>) -> WaitForSync {
    awaited.into_iter().fold(WaitForSync::new(what), WaitForSync::on)
}

impl WaitForSync {
    /// Returns a wait without conditions. The name is for logs and errors; an empty name disables logs.
    pub fn new(what: impl Into<String>) -> Self {
        WaitForSync { what: what.into(), waiting: Vec::new(), limits: Vec::new(), has_begun: false }
    }

    /// Adds a condition.
    pub fn on(mut self, awaited: impl Into<Awaited>) -> Self {
        self.waiting.push(awaited.into());
        self
    }

    /// Fails after this time, measured from the first poll.
    pub fn within(self, time: Duration) -> Self {
        self.unless(async move {
            tokio::time::sleep(time).await;
            TimeIsOver(time)
        })
    }

    /// Fails when this future is ready, with its output as cause.
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

/// Error of a [`WaitForSync`]: some conditions do not hold.
#[derive(Debug)]
pub struct SyncTimeout {
    what: String,
    unsynced: Vec<String>,
    cause: BoxError,
}

impl SyncTimeout {
    /// Returns the names of the conditions that do not hold, sorted.
    pub fn unsynced(&self) -> &[String] {
        &self.unsynced
    }

    /// Returns the cause, as [`source`](std::error::Error::source) does.
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

/// Cause of a [`SyncTimeout`]: the time of [`WaitForSync::within`] has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {0:?}")]
pub struct TimeIsOver(pub Duration);

#[cfg(test)]
mod tests;
