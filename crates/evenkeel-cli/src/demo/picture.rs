//! What there is to see: the phases, the pipeline with its numbers, and what happened last. Pure: it is told what happened and
//! when, and can be asked for lines.

use std::collections::VecDeque;
use std::time::Duration;

use super::numbers::Numbers;
use super::pipeline::{self, Rate};
use super::plan::{Chapter, Phase};
use super::report::{Ended, Report, Tone};
use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN};

/// How many happenings are shown.
const SHOWN: usize = 4;
/// How wide bars are.
const BAR: usize = 24;

/// What there is to see.
#[derive(Debug)]
pub(super) struct Picture {
    rows: Vec<Row>,
    happened: VecDeque<Happening>,
    reconciles: Rate,
}

/// What happened, and how often.
#[derive(Debug)]
struct Happening {
    /// The last time.
    at: Duration,
    tone: Tone,
    text: String,
    times: u32,
}

/// How far a phase is.
#[derive(Debug)]
struct Row {
    phase: Phase,
    writes: usize,
    wrote: usize,
    /// How many Foos have converged, of how many that were written to.
    settled: (usize, usize),
    began: Option<Duration>,
    ended: Option<Ended>,
}

impl Picture {
    pub(super) fn new(chapters: &[Chapter]) -> Self {
        let row = |chapter: &Chapter| Row {
            phase: chapter.phase,
            writes: chapter.writes.len(),
            wrote: 0,
            settled: (0, 0),
            began: None,
            ended: None,
        };
        Picture { rows: chapters.iter().map(row).collect(), happened: VecDeque::new(), reconciles: Rate::default() }
    }

    /// Something was told.
    pub(super) fn take(&mut self, report: Report, now: Duration) {
        match report {
            Report::Began { phase, .. } => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.phase == phase) {
                    row.began = Some(now);
                }
            }
            Report::Wrote => _ = self.current().map(|row| row.wrote += 1),
            Report::Looked { settled, written } => _ = self.current().map(|row| row.settled = (settled, written)),
            Report::Ended(ended) => _ = self.current().map(|row| row.ended = Some(ended)),
            Report::Happened { tone, text } => self.happen(tone, text, now),
        }
    }

    /// What is shown already moves to the end: a list of the same says nothing.
    fn happen(&mut self, tone: Tone, text: String, now: Duration) {
        let shown = self.happened.iter().position(|happening| happening.text == text);
        let before = shown.and_then(|index| self.happened.remove(index)).map_or(0, |happening| happening.times);
        self.happened.push_back(Happening { at: now, tone, text, times: before.saturating_add(1) });
        if self.happened.len() > SHOWN {
            // What happens all the time must not drive out what people should see: of that, the last is enough.
            let faint = |happening: &Happening| happening.tone == Tone::Faint;
            let is_crowded = self.happened.iter().filter(|happening| faint(happening)).count() > 1;
            let index = if is_crowded { self.happened.iter().position(faint) } else { None };
            self.happened.remove(index.unwrap_or(0));
        }
    }

    /// The phase that has begun and is not over.
    fn current(&mut self) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.began.is_some() && row.ended.is_none())
    }

    /// How far the story is, for those who end it.
    pub(super) fn how_far(&self) -> String {
        let (wrote, writes) =
            self.rows.iter().fold((0, 0), |(wrote, writes), row| (wrote + row.wrote, writes + row.writes));
        match self.rows.iter().find(|row| row.began.is_some() && row.ended.is_none()) {
            Some(row) => format!("in the phase {:?}, after {wrote} of {writes} writes", row.phase.name()),
            None => format!("after {wrote} of {writes} writes"),
        }
    }

    /// What the phases came to that are over.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.rows.iter().filter_map(|row| row.ended.as_ref())
    }

    /// The phases that were never begun or are not over.
    pub(super) fn open(&self) -> impl Iterator<Item = Phase> {
        self.rows.iter().filter(|row| row.ended.is_none()).map(|row| row.phase)
    }

    /// All lines, for a terminal of this width.
    pub(super) fn lines(&mut self, numbers: &Numbers, now: Duration, width: usize) -> Vec<Line> {
        self.reconciles.count(now, numbers.reconciles());
        let mut lines: Vec<Line> = self.rows.iter().map(|row| row.line(now)).collect();
        lines.push(Line::new());
        lines.extend(pipeline::lines(numbers, self.reconciles.per_second(), width));
        lines.push(Line::new());
        lines.extend(self.happened.iter().map(Happening::line));
        lines
    }
}

impl Happening {
    fn line(&self) -> Line {
        let style = match self.tone {
            Tone::Faint => FAINT,
            Tone::Good => GOOD,
            Tone::Bad => CHANGED,
        };
        let line =
            Line::new().with(FAINT, format!("{:>7.2} s  ", self.at.as_secs_f64())).with(style, self.text.as_str());
        if self.times > 1 { line.with(FAINT, format!(" ({} times)", self.times)) } else { line }
    }
}

impl Row {
    fn line(&self, now: Duration) -> Line {
        let (settled, written) = self.settled;
        let name = format!("{:<8}", self.phase.name());
        let Some(began) = self.began else {
            return Line::new()
                .with(FAINT, name)
                .with(FAINT, "·".repeat(BAR))
                .with(FAINT, format!("  {}", self.phase.about()));
        };
        let asked = part(BAR, self.wrote, self.writes);
        let followed = part(asked, settled, written);
        let bar = Line::new()
            .with(NAME, name)
            .with(GOOD, "█".repeat(followed))
            .with(CHANGED, "▒".repeat(asked - followed))
            .with(FAINT, "░".repeat(BAR - asked));
        match &self.ended {
            None if self.wrote < self.writes => bar
                .with(PLAIN, format!("  {}/{} written", self.wrote, self.writes))
                .with(FAINT, time(now.saturating_sub(began))),
            None => {
                bar.with(PLAIN, format!("  {settled}/{written} converged")).with(FAINT, time(now.saturating_sub(began)))
            }
            Some(ended) if ended.gaps.is_empty() => {
                bar.with(GOOD, format!("  {} converged", ended.times.settled)).with(FAINT, time(ended.took))
            }
            Some(ended) => {
                bar.with(BAD, format!("  {} did not converge", ended.gaps.len())).with(FAINT, time(ended.took))
            }
        }
    }
}

/// Of so many columns those that stand for so much of the whole.
fn part(columns: usize, some: usize, whole: usize) -> usize {
    (columns * some).checked_div(whole).unwrap_or(0).min(columns)
}

fn time(time: Duration) -> String {
    format!("  {:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::plan::plan;
    use super::super::stopwatch::Times;
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rendered(picture: &mut Picture, now: Duration) -> Vec<String> {
        picture.lines(&Numbers::default(), now, 80).iter().map(|line| line.render(false, 79)).collect()
    }

    fn ended(phase: Phase, gaps: &[&str]) -> Report {
        let times = Times { settled: 20, ..Times::default() };
        let gaps = gaps.iter().map(|foo| ((*foo).to_owned(), "wrong".to_owned())).collect();
        Report::Ended(Ended { phase, writes: 20, times, took: s(2), convergence: s(1), gaps })
    }

    #[test]
    fn a_phase_is_told_from_its_first_write_to_its_end() {
        let mut picture = Picture::new(&plan(20, false));
        let waiting = &rendered(&mut picture, s(0))[0];
        assert_eq!(waiting, "create  ························  Foos come; each gets a Deployment");
        picture.take(Report::Began { phase: Phase::Create, writes: 20 }, s(1));
        for _ in 0..10 {
            picture.take(Report::Wrote, s(1));
        }
        assert_eq!(picture.how_far(), "in the phase \"create\", after 10 of 116 writes");
        picture.take(Report::Looked { settled: 5, written: 10 }, s(2));
        assert_eq!(rendered(&mut picture, s(2))[0], "create  ██████▒▒▒▒▒▒░░░░░░░░░░░░  10/20 written  1.0 s");
        for _ in 0..10 {
            picture.take(Report::Wrote, s(2));
        }
        picture.take(Report::Looked { settled: 5, written: 20 }, s(2));
        assert_eq!(rendered(&mut picture, s(3))[0], "create  ██████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  5/20 converged  2.0 s");
        picture.take(Report::Looked { settled: 20, written: 20 }, s(3));
        picture.take(ended(Phase::Create, &[]), s(3));
        assert_eq!(rendered(&mut picture, s(9))[0], "create  ████████████████████████  20 converged  2.0 s");
        picture.take(Report::Began { phase: Phase::Scale, writes: 20 }, s(4));
        picture.take(ended(Phase::Scale, &["foo-00"]), s(5));
        assert!(rendered(&mut picture, s(9))[1].ends_with("  1 did not converge  2.0 s"));
        assert_eq!(picture.open().next(), Some(Phase::Break));
    }

    #[test]
    fn what_happens_again_and_again_is_one_line() {
        let mut picture = Picture::new(&[]);
        let mut happen = |text: &str, at| picture.take(Report::Happened { tone: Tone::Bad, text: text.into() }, s(at));
        happen("a", 1);
        happen("b", 2);
        happen("a", 3);
        let lines = rendered(&mut picture, s(3));
        assert_eq!(lines[lines.len() - 2..], ["   2.00 s  b", "   3.00 s  a (2 times)"]);
    }

    #[test]
    fn what_happens_all_the_time_does_not_drive_out_what_people_should_see() {
        let mut picture = Picture::new(&[]);
        let shown = |picture: &Picture| {
            let texts: Vec<&str> = picture.happened.iter().map(|happening| happening.text.as_str()).collect();
            texts.join(" ")
        };
        let mut happen = |tone, text: &str| {
            picture.take(Report::Happened { tone, text: text.into() }, s(4));
            shown(&picture)
        };
        for text in ["1", "2", "3", "4"] {
            happen(Tone::Faint, text);
        }
        assert_eq!(happen(Tone::Bad, "a"), "2 3 4 a");
        happen(Tone::Bad, "b");
        assert_eq!(happen(Tone::Faint, "5"), "4 a b 5");
        assert_eq!(happen(Tone::Bad, "c"), "a b 5 c");
        assert_eq!(happen(Tone::Faint, "6"), "a b c 6");
        assert_eq!(happen(Tone::Bad, "d"), "b c 6 d");
    }

    #[test]
    fn everything_fits_into_twenty_lines_of_a_usual_terminal() {
        let mut picture = Picture::new(&plan(5000, true));
        for index in 0..10 {
            picture.take(Report::Happened { tone: Tone::Faint, text: index.to_string() }, s(4));
        }
        let lines = picture.lines(&Numbers::default(), s(5), 80);
        assert!(lines.len() <= 20, "{}", lines.len());
        for line in lines {
            let line = line.render(false, usize::MAX);
            assert!(line.chars().count() < 80, "{line}");
        }
    }
}
