//! [`ErrorWindow`]: trying again for a while after errors that may pass. No clock of its own.

use std::time::Duration;

use tokio::time::Instant;

/// A window that opens with the first error of a kind that may pass, and in which it makes sense to try again.
#[derive(Debug)]
pub(super) struct ErrorWindow {
    /// How long the window stays open.
    longest: Duration,
    /// After how long without such an error the next one opens a new window.
    calm: Duration,
    opened: Option<Instant>,
    last: Option<Instant>,
}

impl ErrorWindow {
    pub(super) fn new(longest: Duration, calm: Duration) -> Self {
        ErrorWindow { longest, calm, opened: None, last: None }
    }

    /// There has been an error that may pass. Others are not told of here, and close nothing.
    pub(super) fn failed(&mut self, now: Instant) {
        let is_calm = self.last.is_some_and(|last| now.saturating_duration_since(last) >= self.calm);
        if self.opened.is_none() || is_calm {
            self.opened = Some(now);
        }
        self.last = Some(now);
    }

    /// Whether it makes sense to try again. When it no longer does, the next error opens a new window.
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

    /// Forgets all errors.
    pub(super) fn close(&mut self) {
        self.opened = None;
        self.last = None;
    }
}

#[cfg(test)]
mod tests;
