//! [`DropLog`]: says that events are lost, and not too often.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often it is said.
const EVERY: Duration = Duration::from_secs(10);

/// Counts what was dropped since it was said last.
#[derive(Debug, Default)]
pub(crate) struct DropLog {
    state: Mutex<(Option<Instant>, usize)>,
}

impl DropLog {
    /// So many were dropped. Some if that should be said now, with how many there were since the last time.
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
