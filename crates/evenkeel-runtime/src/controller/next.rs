//! What a reconcile says in the end: [`Next`] if it went well, [`ReconcileError`] if not.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// An error of whatever kind.
type BoxError = Box<dyn StdError + Send + Sync>;

/// Requeue a key that was reconciled is looked at again, beside when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "this is what a reconcile answers"]
pub struct Next {
    pub(super) requeue: Requeue,
    pub(super) priority: Option<i32>,
}

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

    /// Requeue something happens to it. Its failures so far are forgotten.
    pub const fn done() -> Self {
        Next::new(Requeue::No)
    }

    /// After its back-off, which grows as if it had failed: the state is not yet what it should be, and nothing will say when
    /// it is.
    pub const fn requeue() -> Self {
        Next::new(Requeue::Backoff)
    }

    /// After so long, or when something happens to it if that is sooner. Its failures so far are forgotten. Zero is
    /// [`done`](Self::done).
    pub const fn after(wait: Duration) -> Self {
        if wait.is_zero() { Next::done() } else { Next::new(Requeue::After(wait)) }
    }

    /// With this priority in place of the one it had. It matters only if the key comes back by itself.
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

/// A reconcile did not go well.
///
/// Any error becomes one by `?`, and is tried again after the back-off of the key. [`terminal`](Self::terminal) is for errors
/// that trying again does not help.
///
/// It is no [`Error`](StdError) itself, so that every error can become one.
pub struct ReconcileError {
    error: BoxError,
    terminal: bool,
}

impl ReconcileError {
    /// It failed for this reason, which may be a text, and is tried again after its back-off.
    pub fn new(error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), terminal: false }
    }

    /// It failed, and trying again would not help. It is logged and counted, the failures of the key are forgotten, and it
    /// is looked at again when something happens to it.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        ReconcileError { error: error.into(), terminal: true }
    }

    /// Whether trying again would not help.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error behind it.
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        ReconcileError::new(error)
    }
}

/// The error, and what is behind it.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut said = self.error.to_string();
        let mut source = self.error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Many errors repeat what is behind them in their own words.
            if !said.contains(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
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
