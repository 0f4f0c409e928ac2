//! [`DropLog`]: a rate-limited log of dropped events.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The interval between log messages.
const EVERY: Duration = Duration::from_secs(10);

/// Counts drops since the last log message.
#[derive(Debug, Default)]
pub(crate) struct DropLog {
    state: Mutex<(Option<Instant>, usize)>,
}

impl DropLog {
    /// Counts drops. Returns the number to log if a message is due.
    pub(crate) fn dropped(&self, events: usize, now: Instant) -> Option<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += events;
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

#[cfg(test)]
mod tests;
