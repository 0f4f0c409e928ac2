//! The summary of the demo of replicas: a table of the phases, the longest gaps, and the proof.

use std::time::Duration;

use super::dashboard::Dashboard;
use super::plan::Phase;
use super::record::ReconcileRecord;
use super::report::Ended;
use crate::terminal::{BAD, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// Returns the summary. Its last line is the proof.
pub(super) fn lines(dashboard: &Dashboard, record: &ReconcileRecord, objects: usize) -> Vec<Line> {
    let heads = ["took", "slices", "keys", "median", "longest", "others", "unowned"];
    let mut lines = vec![Line::new().with(STRONG, row("phase", heads.map(str::to_owned)))];
    lines.extend(dashboard.ended().map(phase));
    lines.extend(dashboard.open().map(|phase| Line::new().with(FAINT, format!("{:<8}  not run", phase.name()))));
    let notes = [
        "slices, keys: that moved to another replica",
        "median, longest: of the gaps of moved keys, from a change of the object until its reconcile has written it",
        "others: the longest gap of the keys that stayed",
        "unowned: time in which a part of the hash space had no running owner",
    ];
    lines.extend(notes.map(|note| Line::new().with(FAINT, note)));
    lines.push(Line::new());
    let found = problems(dashboard, record);
    if found.is_empty() {
        lines.push(Line::new().with(GOOD, format!("everything converged: {objects} Foos and their ConfigMaps")));
    }
    lines.extend(found.iter().map(|problem| Line::new().with(BAD, problem.as_str())));
    lines.push(Line::new().with(PLAIN, gaps(dashboard)));
    let proof = format!("{} overlaps in {} reconciles", record.overlaps(), record.reconciles());
    lines.push(Line::new().with(if record.overlaps() == 0 { GOOD } else { BAD }, proof));
    lines
}

/// Returns an error that names what did not converge or overlapped.
pub(super) fn verdict(dashboard: &Dashboard, record: &ReconcileRecord) -> Result<(), String> {
    let problems = problems(dashboard, record);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn problems(dashboard: &Dashboard, record: &ReconcileRecord) -> Vec<String> {
    let failed = dashboard.ended().filter_map(|ended| {
        let problem = ended.problem.as_ref()?;
        Some(format!("{} did not converge: {problem}", ended.phase.name()))
    });
    let mut problems: Vec<String> = failed.collect();
    problems.extend(dashboard.open().next().map(|phase| format!("the demo ended before the end of {}", phase.name())));
    match dashboard.verified() {
        Some(None) => {}
        Some(Some(problem)) => problems.push(format!("the objects did not converge: {problem}")),
        None => problems.push("the objects were not compared".to_owned()),
    }
    if record.reconciles() == 0 {
        problems.push("nothing was reconciled".to_owned());
    }
    problems.extend(record.described_overlaps().iter().map(|overlap| {
        let (first, second) = overlap.replicas;
        format!("{} was reconciled by replica-{first} and replica-{second} at once", overlap.key)
    }));
    problems
}

/// The longest gaps: what a replica costs that leaves or joins, and one that crashes.
fn gaps(dashboard: &Dashboard) -> String {
    let longest = |is_counted: fn(Phase) -> bool| {
        let counted = dashboard.ended().filter(|ended| is_counted(ended.phase) && ended.gaps.moved > 0);
        counted.map(|ended| ended.gaps.longest).max().map_or_else(|| "no key moved".to_owned(), seconds)
    };
    let (planned, crash) = (longest(Phase::is_planned_move), longest(|phase| phase == Phase::Crash));
    format!("longest gap per key: planned moves {planned}, crash {crash}")
}

fn phase(ended: &Ended) -> Line {
    let gaps = &ended.gaps;
    let facts = [
        seconds(ended.took),
        ended.moves.to_string(),
        gaps.moved.to_string(),
        seconds(gaps.median),
        seconds(gaps.longest),
        seconds(gaps.others),
        seconds(ended.unowned),
    ];
    let row = row(ended.phase.name(), facts);
    let (name, rest) = row.split_at(ended.phase.name().len());
    let line = Line::new().with(NAME, name).with(PLAIN, rest);
    if ended.problem.is_none() { line } else { line.with(BAD, "  did not converge") }
}

fn row(name: &str, facts: [String; 7]) -> String {
    let [took, slices, keys, median, longest, others, unowned] = facts;
    format!("{name:<8}{took:>10}{slices:>8}{keys:>6}{median:>10}{longest:>10}{others:>10}{unowned:>10}")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
