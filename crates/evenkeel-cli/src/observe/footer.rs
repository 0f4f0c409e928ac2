//! What stands below the lines on a terminal, while they scroll and when they have ended.

use std::time::Duration;

use evenkeel_cache::informer::InformerStatus;
use evenkeel_cache::reflector::Phase;
use evenkeel_core::duration;
use tokio::time::Instant;

use super::tally::Tally;
use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// How the watch is doing, and what has happened so far.
pub(super) fn live(
    what: &str,
    status: &InformerStatus,
    received: usize,
    tally: &mut Tally,
    now: Instant,
    passed: Duration,
) -> Vec<Line> {
    let report = &status.reflector;
    let (state, style) = match report.phase {
        Phase::Watching => ("watching".to_owned(), GOOD),
        Phase::Listing if received > 0 && !status.has_synced => (format!("listing, {received} so far"), CHANGED),
        Phase::Waiting { until } => {
            // Whoever waits for less than a second waits for one.
            let seconds = until.saturating_duration_since(now).as_millis().div_ceil(1000).max(1);
            (format!("waiting {seconds}s to try again"), BAD)
        }
        Phase::Idle => ("beginning".to_owned(), FAINT),
        _ => ("listing".to_owned(), CHANGED),
    };
    let mut watch = Line::new().with(FAINT, "── ").with(NAME, what).with(PLAIN, "  ").with(style, state);
    if !status.store_resource_version.is_empty() {
        watch = watch.with(FAINT, format!("  at version {}", status.store_resource_version));
    }
    if report.failures > 0 {
        watch = watch.with(PLAIN, "  ").with(BAD, failures(report.failures));
    }
    vec![watch, Line::new().with(PLAIN, "   ").and(tally.line(passed))]
}

/// What is left to say.
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
