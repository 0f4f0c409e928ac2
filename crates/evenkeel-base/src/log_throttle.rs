//! [`LogThrottle`]: limits how often an event is logged.

use std::time::Duration;

use tokio::time::Instant;

/// Admits an event to the log at most once per interval, and counts the others.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_base::log_throttle::LogThrottle;
/// use tokio::time::Instant;
///
/// let mut throttle = LogThrottle::new(Duration::from_secs(10));
/// let now = Instant::now();
/// assert_eq!(throttle.admit(now), Some(0));
/// assert_eq!(throttle.admit(now), None);
/// assert_eq!(throttle.admit(now + Duration::from_secs(10)), Some(1));
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    last: Option<Instant>,
    unlogged: u64,
}

impl LogThrottle {
    /// Returns a throttle that admits the first event.
    pub fn new(interval: Duration) -> Self {
        LogThrottle { interval, last: None, unlogged: 0 }
    }

    /// Returns how many events were not logged since the last that was, if this one is to be logged.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            self.unlogged += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}
