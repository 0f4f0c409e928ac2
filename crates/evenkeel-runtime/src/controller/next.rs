//! The result of a reconcile: [`Next`] if it succeeded, [`ReconcileError`] if it failed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A boxed error.
type BoxError = Box<dyn StdError + Send + Sync>;

/// When a key is reconciled again, apart from events. controller-runtime's `reconcile.Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a reconcile returns this"]
pub struct Next {
    pub(super) requeue: Requeue,
    pub(super) priority: Option<i32>,
}

/// How a key is put back into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requeue {
    No,
    Backoff,
    After(Duration),
}

impl Next {
    const fn new(requeue: Requeue) -> Self {
        Next { requeue, priority: None }
    }

    /// Waits for the next event. Resets the backoff of the key.
    pub const fn done() -> Self {
        Next::new(Requeue::No)
    }

    /// Requeues the key with backoff, which grows as if the reconcile had failed. For a state that is not reached yet and whose
    /// change no informer reports.
    pub const fn requeue() -> Self {
        Next::new(Requeue::Backoff)
    }

    /// Requeues the key after `wait`, or earlier if an event arrives. Resets the backoff of the key. Zero is
    /// [`done`](Self::done).
    pub const fn after(wait: Duration) -> Self {
        if wait.is_zero() { Next::done() } else { Next::new(Requeue::After(wait)) }
    }

    /// Sets the priority of the requeued key, in place of the priority that it had. Has no effect on [`done`](Self::done).
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

/// The error of a reconcile.
///
/// Every error converts to it by `?`, and the key is retried with backoff. [`terminal`](Self::terminal) is for errors that a
/// retry cannot repair.
///
/// It does not implement [`Error`](StdError) itself, so that every error can convert to it.
pub struct ReconcileError {
    error: BoxError,
    terminal: bool,
}

impl ReconcileError {
    /// Returns an error that is retried with backoff. `error` may be a string.
    pub fn new(error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), terminal: false }
    }

    /// Returns an error that is not retried. It is logged and counted, the backoff of the key is reset, and the key is reconciled
    /// again with the next event.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), terminal: true }
    }

    /// Returns whether the key is not retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the underlying error.
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        ReconcileError::new(error)
    }
}

/// Shows the error and its sources.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut shown = self.error.to_string();
        let mut source = self.error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Many errors repeat the text of their source.
            if !shown.contains(&text) {
                write!(f, ": {text}")?;
            }
            shown = text;
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError").field("error", &self.error).field("terminal", &self.terminal).finish()
    }
}
