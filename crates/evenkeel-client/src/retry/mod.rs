//! [`retry`], [`retry_on_conflict`] and [`Backoff`].
//!
//! These are for operations of several requests. The retries of a single request are described at
//! [`Request`](crate::Request).

mod backoff;

use std::fmt;
use std::future::{Future, Pending, pending};
use std::pin::pin;

pub(crate) use backoff::server_retry_delay;
pub use backoff::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, jitter};

use crate::error::Error;
use crate::wait::{Interrupted, is_interrupted, is_ready};

/// An error that may be a conflict. Implement it for an error type to use it with [`retry_on_conflict`].
pub trait Conflict {
    /// Returns whether the write was based on an old version, so that reading and writing again may succeed.
    fn is_conflict(&self) -> bool;
}

impl Conflict for Error {
    fn is_conflict(&self) -> bool {
        Error::is_conflict(self)
    }
}

impl Conflict for evenkeel_core::Status {
    fn is_conflict(&self) -> bool {
        evenkeel_core::Status::is_conflict(self)
    }
}

/// Runs `attempt` until it succeeds, fails with an error that is not retriable, or attempts run out.
///
/// The first attempt starts at once; the waits between attempts are those of `backoff`, without a wait after the last
/// one. Drop the future to cancel, or use [`Retry::stop_on`].
pub async fn retry<T, E, F>(
    backoff: Backoff,
    retriable: impl FnMut(&E) -> bool,
    attempt: impl FnMut() -> F,
) -> Result<T, RetryError<E>>
where
    F: Future<Output = Result<T, E>>,
{
    Retry::new(backoff).run(retriable, attempt).await
}

/// Runs `attempt`, which reads an object, changes it and writes it, until there is no conflict: up to five times, about
/// 10 ms apart ([`DEFAULT_RETRY`]).
///
/// The attempt must read the object each time it runs, and must return the error of the write unchanged. `?` converts
/// the result into this crate's [`Error`].
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use std::sync::Arc;
/// use evenkeel_client::retry_on_conflict;
/// use k8s_openapi::api::core::v1::Node;
///
/// let nodes = client.api::<Node>();
/// let cordoned = retry_on_conflict(async || {
///     let mut node = Arc::unwrap_or_clone(nodes.get("n1").await?.typed()?);
///     node.spec.get_or_insert_default().unschedulable = Some(true);
///     nodes.update(&node).await
/// });
/// cordoned.await?;
/// # Ok(())
/// # }
/// ```
pub async fn retry_on_conflict<T, E, F>(attempt: impl FnMut() -> F) -> Result<T, RetryError<E>>
where
    E: Conflict,
    F: Future<Output = Result<T, E>>,
{
    Retry::new(DEFAULT_RETRY).run(E::is_conflict, attempt).await
}

/// [`retry`] with a stop signal.
#[derive(Debug)]
#[must_use = "a retry does nothing until `run` is called"]
pub struct Retry<S = Pending<()>> {
    backoff: Backoff,
    stop: S,
}

impl Retry {
    /// Creates a retry with this backoff.
    pub fn new(backoff: Backoff) -> Self {
        Retry { backoff, stop: pending() }
    }
}

impl<S: Future> Retry<S> {
    /// Stops as soon as this future is ready: it ends a wait, drops a running attempt, and starts no other.
    pub fn stop_on<N: Future>(self, stop: N) -> Retry<N> {
        Retry { backoff: self.backoff, stop }
    }

    /// Runs the attempts; see [`retry`].
    pub async fn run<T, E, F>(
        self,
        mut retriable: impl FnMut(&E) -> bool,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, RetryError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut backoff = self.backoff;
        if backoff.steps == 0 {
            return Err(RetryError::NoAttempts);
        }
        let mut stop = pin!(self.stop);
        let mut previous = None;
        let mut attempts = 0;
        loop {
            if is_ready(stop.as_mut()).await {
                return Err(RetryError::Stopped { last: previous });
            }
            attempts += 1;
            let outcome = tokio::select! {
                biased;
                _ = &mut stop => return Err(RetryError::Stopped { last: previous }),
                outcome = attempt() => outcome,
            };
            let error = match outcome {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !retriable(&error) {
                return Err(RetryError::Failed { error, previous });
            }
            let Some(wait) = backoff.next_wait(fastrand::f64()) else {
                return Err(RetryError::Exhausted { last: error, attempts });
            };
            previous = Some(error);
            tokio::select! {
                biased;
                _ = &mut stop => return Err(RetryError::Stopped { last: previous }),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Why a retried operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryError<E> {
    /// The last attempt failed with a retriable error.
    Exhausted {
        /// The error.
        last: E,
        /// The number of attempts.
        attempts: u32,
    },
    /// An attempt failed with an error that is not retriable.
    Failed {
        /// The error.
        error: E,
        /// The error of the previous attempt, if there was one.
        previous: Option<E>,
    },
    /// The stop signal was ready.
    Stopped {
        /// The error of the last finished attempt.
        last: Option<E>,
    },
    /// The backoff has no steps, so there was no attempt.
    NoAttempts,
}

impl<E> RetryError<E> {
    /// Returns the error of the last finished attempt.
    pub fn error(&self) -> Option<&E> {
        match self {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, .. } => Some(error),
            RetryError::Stopped { last } => last.as_ref(),
            RetryError::NoAttempts => None,
        }
    }

    /// Returns the error of the last finished attempt.
    pub fn into_error(self) -> Option<E> {
        match self {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, .. } => Some(error),
            RetryError::Stopped { last } => last,
            RetryError::NoAttempts => None,
        }
    }
}

impl<E: std::error::Error + 'static> RetryError<E> {
    /// Returns whether it was interrupted, by the stop signal or within the attempt; see [`is_interrupted`].
    pub fn is_interrupted(&self) -> bool {
        match self {
            RetryError::Stopped { .. } | RetryError::NoAttempts => true,
            RetryError::Failed { error, .. } => is_interrupted(error),
            RetryError::Exhausted { .. } => false,
        }
    }
}

impl<E: fmt::Display> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryError::Exhausted { last, attempts } => write!(f, "given up after {attempts} attempts: {last}"),
            RetryError::Failed { error, .. } => write!(f, "{error}"),
            RetryError::Stopped { last: None } => f.write_str("stopped before an attempt finished"),
            RetryError::Stopped { last: Some(last) } => write!(f, "stopped after: {last}"),
            RetryError::NoAttempts => f.write_str("the backoff has no steps"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RetryError<E> {
    /// The source of an error after a conflict is the conflict; otherwise it is the source of the error whose message
    /// this message contains.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, previous: None } => error.source(),
            RetryError::Failed { previous: Some(previous), .. } => Some(previous),
            RetryError::Stopped { .. } => Some(&Interrupted::Stopped),
            RetryError::NoAttempts => Some(&Interrupted::TimedOut),
        }
    }
}

impl From<RetryError<Error>> for Error {
    /// Returns the error of the last attempt, unless there is more than that.
    fn from(error: RetryError<Error>) -> Self {
        match error {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, previous: None } => error,
            other => Error::Retry(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests;
