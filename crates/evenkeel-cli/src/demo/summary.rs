//! What came of it: a table of the phases, the totals, and a sentence.

use std::time::Duration;

use super::judge;
use super::numbers::Numbers;
use super::picture::Picture;
use super::report::Ended;
use crate::terminal::{BAD, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// Everything there is to say at the end.
pub(super) fn lines(picture: &Picture, numbers: &Numbers) -> Vec<Line> {
    let mut lines =
        vec![Line::new().with(STRONG, row("phase", ["writes", "Foos", "took", "median", "longest", "all"]))];
    lines.extend(picture.ended().map(phase));
    lines.extend(picture.open().map(|phase| Line::new().with(FAINT, format!("{:<8}  not played", phase.name()))));
    let notes = [
        "median, longest: from the last write about a Foo until it was as it should be",
        "all: from the last write, or the end of the outage, until everything was",
    ];
    lines.extend(notes.map(|note| Line::new().with(FAINT, note)));
    lines.push(Line::new());
    lines.extend(totals(numbers).map(|text| Line::new().with(PLAIN, text)));
    lines.push(Line::new());
    lines.push(match verdict(picture) {
        Ok(()) => Line::new().with(GOOD, "everything converged"),
        Err(text) => Line::new().with(BAD, text),
    });
    lines
}

/// Whether everything converged; if not, what did not.
pub(super) fn verdict(picture: &Picture) -> Result<(), String> {
    if let Some(ended) = picture.ended().find(|ended| !ended.gaps.is_empty()) {
        return Err(format!("{} did not converge: {}", ended.phase.name(), judge::in_words(&ended.gaps)));
    }
    match picture.open().next() {
        Some(phase) => Err(format!("the story ended before {}", phase.name())),
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
    if ended.gaps.is_empty() { line } else { line.with(BAD, format!("  {} did not converge", ended.gaps.len())) }
}

fn row(name: &str, facts: [&str; 6]) -> String {
    let [writes, foos, took, median, longest, end] = facts;
    format!("{name:<8}{writes:>8}{foos:>8}{took:>10}{median:>10}{longest:>10}{end:>12}")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn totals(numbers: &Numbers) -> [String; 3] {
    let [controller, cluster, story] = numbers.requests;
    [
        format!("reconciles {}, retries {}, events {}", numbers.reconciles(), numbers.queue.retries, numbers.events),
        format!(
            "watches: {} broke, {} refused, {} too old to go on (410); relists {}",
            numbers.breaks,
            numbers.refusals,
            numbers.expired,
            numbers.relists()
        ),
        format!(
            "requests {}: controller {controller}, cluster {cluster}, story and judge {story}",
            controller + cluster + story
        ),
    ]
}

#[cfg(test)]
mod tests;
