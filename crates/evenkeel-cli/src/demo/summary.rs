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
mod tests {
    use super::super::plan::{Phase, plan};
    use super::super::report::Report;
    use super::super::stopwatch::Times;
    use super::*;

    /// A picture of a story of which these phases are over, with this many Foos that did not converge in the last.
    fn picture(phases: &[Phase], gaps: usize) -> Picture {
        let mut picture = Picture::new(&plan(20, false));
        for (index, phase) in phases.iter().copied().enumerate() {
            let times = Times { settled: 20, median: Duration::from_millis(20), longest: Duration::from_millis(1200) };
            let gaps = if index + 1 == phases.len() { gaps } else { 0 };
            let gaps = (0..gaps).map(|foo| (format!("foo-0{foo}"), "it has no status".to_owned())).collect();
            let (took, convergence) = (Duration::from_secs(3), Duration::from_millis(300));
            picture.take(Report::Began { phase, writes: 20 }, Duration::ZERO);
            picture.take(Report::Ended(Ended { phase, writes: 20, times, took, convergence, gaps }), Duration::ZERO);
        }
        picture
    }

    const ALL: [Phase; 6] = [Phase::Create, Phase::Scale, Phase::Break, Phase::Repair, Phase::Outage, Phase::Delete];

    fn rendered(picture: &Picture) -> Vec<String> {
        let numbers = Numbers { requests: [123_456, 98_765, 54_321], breaks: 2, refusals: 12, ..Numbers::default() };
        lines(picture, &numbers).iter().map(|line| line.render(false, usize::MAX)).collect()
    }

    #[test]
    fn a_story_that_went_well_says_so_last() {
        let picture = picture(&ALL, 0);
        assert_eq!(verdict(&picture), Ok(()));
        let lines = rendered(&picture);
        assert_eq!(lines[0], "phase     writes    Foos      took    median   longest         all");
        assert_eq!(lines[1], "create        20      20    3.00 s    0.02 s    1.20 s      0.30 s");
        assert_eq!(lines.last().unwrap(), "everything converged");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
    }

    #[test]
    fn what_did_not_converge_is_named() {
        let picture = picture(&ALL[..2], 4);
        let complaint = "scale did not converge: foo-00: it has no status; foo-01: it has no status; \
                         foo-02: it has no status; and 1 more";
        assert_eq!(verdict(&picture), Err(complaint.to_owned()));
        let lines = rendered(&picture);
        assert!(lines[2].ends_with("  4 did not converge"), "{lines:?}");
        assert_eq!(lines[3], "break     not played");
        assert_eq!(lines.last().unwrap(), complaint);
    }

    #[test]
    fn a_story_that_was_cut_short_did_not_go_well() {
        assert_eq!(verdict(&picture(&ALL[..5], 0)), Err("the story ended before delete".to_owned()));
    }
}
