//! The summary: a table of the phases, totals and the result.

use std::time::Duration;

use super::dashboard::Dashboard;
use super::numbers::Numbers;
use super::report::Ended;
use super::verify;
use crate::terminal::{BAD, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// Returns the summary.
pub(super) fn lines(dashboard: &Dashboard, numbers: &Numbers) -> Vec<Line> {
    let mut lines =
        vec![Line::new().with(STRONG, row("phase", ["writes", "Foos", "took", "median", "longest", "all"]))];
    lines.extend(dashboard.ended().map(phase));
    lines.extend(dashboard.open().map(|phase| Line::new().with(FAINT, format!("{:<8}  not run", phase.name()))));
    let notes = [
        "median, longest: from the last write to a Foo until it converged",
        "all: from the last write, or the end of the outage, until everything converged",
    ];
    lines.extend(notes.map(|note| Line::new().with(FAINT, note)));
    lines.push(Line::new());
    lines.extend(totals(numbers).map(|text| Line::new().with(PLAIN, text)));
    lines.push(Line::new());
    lines.push(match verdict(dashboard) {
        Ok(()) => Line::new().with(GOOD, "everything converged"),
        Err(text) => Line::new().with(BAD, text),
    });
    lines
}

/// Returns an error that names what did not converge.
pub(super) fn verdict(dashboard: &Dashboard) -> Result<(), String> {
    if let Some(ended) = dashboard.ended().find(|ended| !ended.mismatches.is_empty()) {
        return Err(format!("{} did not converge: {}", ended.phase.name(), verify::summarize(&ended.mismatches)));
    }
    match dashboard.open().next() {
        Some(phase) => Err(format!("the demo ended before {}", phase.name())),
        None => Ok(()),
    }
}

fn phase(ended: &Ended) -> Line {
    let times = &ended.times;
    let facts = [
        ended.writes.to_string(),
        times.settled.to_string(),
        seconds(ended.took),
        seconds(times.median),
        seconds(times.longest),
        seconds(ended.convergence),
    ];
    let row = row(ended.phase.name(), facts.each_ref().map(String::as_str));
    let (name, rest) = row.split_at(ended.phase.name().len());
    let line = Line::new().with(NAME, name).with(PLAIN, rest);
    if ended.mismatches.is_empty() {
        line
    } else {
        line.with(BAD, format!("  {} did not converge", ended.mismatches.len()))
    }
}

fn row(name: &str, facts: [&str; 6]) -> String {
    let [writes, foos, took, median, longest, end] = facts;
    format!("{name:<8}{writes:>8}{foos:>8}{took:>10}{median:>10}{longest:>10}{end:>12}")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn totals(numbers: &Numbers) -> [String; 3] {
    let [controller, cluster, runner] = numbers.requests;
    [
        format!("reconciles {}, retries {}, events {}", numbers.reconciles(), numbers.queue.retries, numbers.events),
        format!(
            "watches: {} closed, {} refused, {} expired (410); relists {}",
            numbers.breaks,
            numbers.refusals,
            numbers.expired,
            numbers.relists()
        ),
        format!(
            "requests {}: controller {controller}, cluster {cluster}, demo {runner}",
            controller + cluster + runner
        ),
    ]
}

#[cfg(test)]
mod tests;
