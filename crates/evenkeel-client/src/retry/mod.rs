//! Trying again: [`retry`] and [`retry_on_conflict`], and how long to wait in between: [`Backoff`].
//!
//! This is for what programs do around calls. What the client itself repeats, and when, is said at
//! [`Request`](crate::Request).

mod backoff;

use std::fmt;
use std::future::{Future, Pending, pending};
use std::pin::pin;

pub(crate) use backoff::asked_by;
pub use backoff::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, jitter};

use crate::error::Error;
use crate::wait::{Interrupted, is_interrupted, is_ready};

/// An error that may mean that somebody else wrote first. Implement it for an error type of your own to use
/// [`retry_on_conflict`] with it.
pub trait Conflict {
    /// Whether the write was based on an old version, so that reading again and writing again may help.
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

/// Runs `attempt` until it succeeds, or fails in a way that is not worth another try, or attempts run out.
///
/// The first attempt is made at once; between attempts it waits as `backoff` says, and after the last one it does not
/// wait. To cancel, drop the future; [`Retry::stop_on`] takes a signal.
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

/// Runs `attempt`, which reads an object, changes it and writes it, until nobody else has written in between: up to five
/// times, about 10 ms apart ([`DEFAULT_RETRY`]).
///
/// The attempt must read the object each time it runs, and must let the error of the write come out as it is. In a
/// function that returns this crate's [`Error`], `?` works on the result.
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

/// [`retry`] with more to say: when to stop.
#[derive(Debug)]
#[must_use = "nothing is tried until `run` is called"]
pub struct Retry<S = Pending<()>> {
    backoff: Backoff,
    stop: S,
}

impl Retry {
    /// Attempts with these waits between them.
    pub fn new(backoff: Backoff) -> Self {
        Retry { backoff, stop: pending() }
    }
}

impl<S: Future> Retry<S> {
    /// Stops as soon as this future is ready: it cuts a wait short, drops an attempt that is under way, and begins no other.
    pub fn stop_on<N: Future>(self, stop: N) -> Retry<N> {
        Retry { backoff: self.backoff, stop }
    }

    /// Tries; see [`retry`].
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

/// Why trying again did not help.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryError<E> {
    /// The last attempt failed in a way that was worth another try, but there was none left.
    Exhausted {
        /// How it failed.
        last: E,
        /// How many attempts there were.
        attempts: u32,
    },
    /// An attempt failed in a way that is not worth another try.
    Failed {
        /// How it failed.
        error: E,
        /// How the attempt before it failed, if there was one: what made this one necessary.
        previous: Option<E>,
    },
    /// The signal to stop came.
    Stopped {
        /// How the last attempt failed, if one had come to an end.
        last: Option<E>,
    },
    /// There were no attempts to be made: the backoff had no steps.
    NoAttempts,
}

impl<E> RetryError<E> {
    /// The error of the attempt that decided: the last one that came to an end.
    pub fn error(&self) -> Option<&E> {
        match self {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, .. } => Some(error),
            RetryError::Stopped { last } => last.as_ref(),
            RetryError::NoAttempts => None,
        }
    }

    /// The same, for keeps: what to hand on where only errors of attempts are understood.
    pub fn into_error(self) -> Option<E> {
        match self {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, .. } => Some(error),
            RetryError::Stopped { last } => last,
            RetryError::NoAttempts => None,
        }
    }
}

impl<E: std::error::Error + 'static> RetryError<E> {
    /// Whether it was cut short, from outside or by the attempt's own doing; see [`is_interrupted`].
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
            RetryError::Stopped { last: None } => f.write_str("no attempt came to an end"),
            RetryError::Stopped { last: Some(last) } => write!(f, "there was no other attempt after: {last}"),
            RetryError::NoAttempts => f.write_str("there was no attempt to be made"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for RetryError<E> {
    /// An error that came after a conflict has the conflict for its cause; else the cause is that of the error whose text
    /// this error's text already has.
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
    /// What the last attempt said, as it is, unless there is more to tell.
    fn from(error: RetryError<Error>) -> Self {
        match error {
            RetryError::Exhausted { last: error, .. } | RetryError::Failed { error, previous: None } => error,
            other => Error::Retry(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests;
