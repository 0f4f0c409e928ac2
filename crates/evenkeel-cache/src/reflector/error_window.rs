//! [`ErrorWindow`]: retries for a while after transient errors. The time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A window that opens with the first transient error, and in which retries make sense.
#[derive(Debug)]
pub(super) struct ErrorWindow {
    /// How long the window stays open.
    longest: Duration,
    /// The time without an error after which the next one opens a new window.
    calm: Duration,
    opened: Option<Instant>,
    last: Option<Instant>,
}

impl ErrorWindow {
    pub(super) fn new(longest: Duration, calm: Duration) -> Self {
        ErrorWindow { longest, calm, opened: None, last: None }
    }

    /// Records a transient error. Other errors do not close the window.
    pub(super) fn failed(&mut self, now: Instant) {
        let is_calm = self.last.is_some_and(|last| now.saturating_duration_since(last) >= self.calm);
        if self.opened.is_none() || is_calm {
            self.opened = Some(now);
        }
        self.last = Some(now);
    }

    /// Returns whether to retry. Once it is false, the next error opens a new window.
    pub(super) fn may_retry(&mut self, now: Instant) -> bool {
        let Some(opened) = self.opened else { return false };
        if self.longest.is_zero() {
            return false;
        }
        if now.saturating_duration_since(opened) <= self.longest {
            return true;
        }
        self.close();
        false
    }

    /// Closes the window.
    pub(super) fn close(&mut self) {
        self.opened = None;
        self.last = None;
    }
}

#[cfg(test)]
mod tests;
