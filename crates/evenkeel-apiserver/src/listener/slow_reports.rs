//! Limits the reports of slow requests, so that a client cannot fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most reports in one interval.
const REPORTS: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// Admits ten reports in ten seconds, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct SlowReports(Mutex<ReportInterval>);

#[derive(Debug, Default)]
struct ReportInterval {
    start: Duration,
    reports: u32,
    /// Slow requests without a report since the last report.
    omitted: u64,
}

impl SlowReports {
    /// Returns the number of slow requests that were omitted before this one, or `None` if this one is omitted as well.
    pub(crate) fn admit(&self, now: Duration) -> Option<u64> {
        let mut interval = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(interval.start) >= INTERVAL {
            interval.start = now;
            interval.reports = 0;
        }
        if interval.reports == REPORTS {
            interval.omitted += 1;
            return None;
        }
        interval.reports += 1;
        Some(std::mem::take(&mut interval.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_slow_request_is_omitted_and_counted_in_the_next_interval() {
        let reports = SlowReports::default();
        let at = Duration::from_secs;
        assert!((0..10).all(|second| reports.admit(at(second)) == Some(0)));
        assert_eq!(reports.admit(at(9)), None);
        assert_eq!(reports.admit(at(9)), None);
        assert_eq!(reports.admit(at(10)), Some(2));
        assert_eq!(reports.admit(at(11)), Some(0));
    }
}
