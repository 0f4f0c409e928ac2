//! [`ReconcileError`]: why a reconcile failed, and when the key is retried.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error_chain::ErrorChain;

/// A boxed error.
type BoxError = Box<dyn StdError + Send + Sync>;

/// The number of causes in which a [`TerminalError`] or [`RetryAfterError`] is looked for.
const DEPTH: usize = 64;

/// When a key is retried after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Backoff,
    After(Duration),
    Never,
}

/// The error of a reconcile. The key is retried with backoff, unless the error is [`terminal`](Self::terminal) or states when to
/// [retry](Self::retry_after).
///
/// Everything that converts to `Box<dyn Error + Send + Sync>` converts to it by `?`: all errors, `anyhow::Error`, boxed errors,
/// strings. It does not implement [`Error`](StdError) itself, because it could not be converted from all errors then.
///
/// ```
/// use evenkeel_runtime::{Next, ReconcileError};
///
/// fn parse(port: &str) -> Result<Next, ReconcileError> {
///     let port: u16 = port.parse()?;
///     if port == 0 {
///         return Err(ReconcileError::terminal("port 0 cannot be used"));
///     }
///     Ok(Next::done())
/// }
/// # assert!(parse("0").unwrap_err().is_terminal() && !parse("x").unwrap_err().is_terminal());
/// ```
///
/// A function with another error type returns a [`TerminalError`] or a [`RetryAfterError`] instead. They have the same effect
/// wherever they are among the causes of an error.
pub struct ReconcileError {
    error: BoxError,
    retry: Retry,
}

impl ReconcileError {
    /// Returns an error that is retried with backoff, unless a [`TerminalError`] or a [`RetryAfterError`] is among its causes.
    /// `error` may be a string.
    pub fn new(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let retry = retry_of(&*error);
        ReconcileError { error, retry }
    }

    /// Returns an error that is not retried. It is logged and counted, the backoff of the key is reset, and the key is reconciled
    /// again with the next event.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), retry: Retry::Never }
    }

    /// Returns an error that is retried after `wait` instead of the backoff. It counts as a failure, so that the backoff of the
    /// next error is longer.
    pub fn retry_after(wait: Duration, error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), retry: Retry::After(wait) }
    }

    /// Returns whether the key is not retried.
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// Returns the underlying error.
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }

    pub(super) fn retry(&self) -> Retry {
        self.retry
    }
}

impl<E: Into<BoxError>> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        ReconcileError::new(error)
    }
}

/// Returns when an error is retried: what the outermost error among it and its causes states.
fn retry_of(error: &(dyn StdError + 'static)) -> Retry {
    std::iter::successors(Some(error), |&error| error.source())
        .take(DEPTH)
        .find_map(|error| {
            // A wrapper that shows its inner error as itself (a boxed `anyhow::Error`, `#[error(transparent)]`) hides the type of
            // that error, but not of its source.
            let mark = error.downcast_ref::<Marked>();
            let mark = mark.or_else(|| error.downcast_ref::<TerminalError>().map(|error| &error.0));
            mark.or_else(|| error.downcast_ref::<RetryAfterError>().map(|error| &error.0))
        })
        .map_or(Retry::Backoff, |mark| mark.retry)
}

/// The cause of an error that states when the key is retried.
#[derive(Debug)]
struct Marked {
    error: BoxError,
    retry: Retry,
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl StdError for Marked {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// An error that a retry cannot repair. A reconcile that fails with it, or with an error that it is a cause of, is not retried: see
/// [`ReconcileError::terminal`]. controller-runtime's `reconcile.TerminalError`.
///
/// ```
/// use evenkeel_runtime::ReconcileError;
/// use evenkeel_runtime::controller::TerminalError;
///
/// fn check(replicas: i32) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     if replicas < 0 {
///         return Err(TerminalError::new("replicas is negative").into());
///     }
///     Ok(())
/// }
/// # assert!(ReconcileError::from(check(-1).unwrap_err()).is_terminal());
/// ```
#[derive(Debug)]
pub struct TerminalError(Marked);

impl TerminalError {
    /// Returns an error that is not retried. `error` may be a string.
    pub fn new(error: impl Into<BoxError>) -> Self {
        TerminalError(Marked { error: error.into(), retry: Retry::Never })
    }
}

/// Shows that the error is terminal. Its [`source`](StdError::source) is the error itself.
impl fmt::Display for TerminalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("terminal error")
    }
}

impl StdError for TerminalError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// An error that is to be retried after a time instead of the backoff, such as the `Retry-After` of a service. It has the same
/// effect as a cause of another error: see [`ReconcileError::retry_after`].
#[derive(Debug)]
pub struct RetryAfterError(Marked);

impl RetryAfterError {
    /// Returns an error that is retried after `wait`. `error` may be a string.
    pub fn new(wait: Duration, error: impl Into<BoxError>) -> Self {
        RetryAfterError(Marked { error: error.into(), retry: Retry::After(wait) })
    }
}

/// Shows the time. Its [`source`](StdError::source) is the error itself.
impl fmt::Display for RetryAfterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.retry {
            Retry::After(wait) => write!(f, "to be retried after {wait:?}"),
            Retry::Backoff | Retry::Never => Ok(()),
        }
    }
}

impl StdError for RetryAfterError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// Shows the error and its causes.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ErrorChain(&*self.error).fmt(f)
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError").field("error", &self.error).field("retry", &self.retry).finish()
    }
}

#[cfg(test)]
mod tests;
