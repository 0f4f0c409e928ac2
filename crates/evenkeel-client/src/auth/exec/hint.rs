//! [`HintLimiter`]: how often an error repeats the hint on how to install a plugin. Sans-IO.

use std::time::Duration;

use tokio::time::Instant;

/// client-go's numbers.
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Counts the hints of the current window.
#[derive(Debug, Default)]
pub(super) struct HintLimiter {
    since: Option<Instant>,
    count: u32,
}

impl HintLimiter {
    /// Returns whether to show the hint: ten times an hour.
    pub(super) fn allow(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= MOST
    }
}
