//! The footer below the lines on a terminal, and the final summary.

use std::time::Duration;

use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::informer::ReflectorPhase;
use evenkeel_core::duration;
use tokio::time::Instant;

use super::tally::Tally;
use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// State of the watch.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) phase: ReflectorPhase,
    /// Objects received so far, during the initial list.
    pub(super) received: Option<usize>,
    pub(super) version: String,
    pub(super) failures: u64,
}

impl Watch {
    pub(super) fn new(status: InformerStatus, received: usize) -> Self {
        Watch {
            phase: status.reflector.phase,
            received: (!status.has_synced).then_some(received),
            version: status.store_resource_version,
            failures: status.reflector.failures,
        }
    }

    fn line(&self, what: &str, now: Instant) -> Line {
        let (state, style) = match (self.phase, self.received) {
            (ReflectorPhase::Watching, None) => ("watching".to_owned(), GOOD),
            (ReflectorPhase::Waiting { until }, _) => {
                // Rounded up to whole seconds.
                let seconds = until.saturating_duration_since(now).as_millis().div_ceil(1000).max(1);
                (format!("retrying in {seconds}s"), BAD)
            }
            (ReflectorPhase::Idle, _) => ("starting".to_owned(), FAINT),
            (_, Some(received)) if received > 0 => (format!("listing, {received} so far"), CHANGED),
            _ => ("listing".to_owned(), CHANGED),
        };
        let mut line = Line::new().with(FAINT, "── ").with(NAME, what).with(PLAIN, "  ").with(style, state);
        if !self.version.is_empty() {
            line = line.with(FAINT, format!("  at version {}", self.version));
        }
        if self.failures > 0 {
            line = line.with(PLAIN, "  ").with(BAD, failures(self.failures));
        }
        line
    }
}

/// Returns the footer: state of the watch and counts.
pub(super) fn live(what: &str, watch: &Watch, tally: &mut Tally, now: Instant, passed: Duration) -> Vec<Line> {
    vec![watch.line(what, now), Line::new().with(PLAIN, "   ").and(tally.line(passed))]
}

/// Returns the final summary.
pub(super) fn last(what: &str, tally: &Tally, failures_told: u64, passed: Duration) -> Vec<Line> {
    let whole = Duration::from_secs(passed.as_secs());
    let title = Line::new()
        .with(STRONG, what)
        .with(PLAIN, format!(", observed for {}", duration::to_text(whole)))
        .with(PLAIN, format!(": {} at the end, {}", objects(tally.objects()), failures(failures_told)));
    [Line::new(), title].into_iter().chain(tally.table()).collect()
}

fn objects(count: usize) -> String {
    format!("{count} {}", if count == 1 { "object" } else { "objects" })
}

fn failures(count: u64) -> String {
    match count {
        0 => "no failure".to_owned(),
        1 => "1 failure".to_owned(),
        count => format!("{count} failures"),
    }
}

#[cfg(test)]
mod tests;
