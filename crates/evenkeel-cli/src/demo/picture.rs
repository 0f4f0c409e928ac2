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
mod tests;
