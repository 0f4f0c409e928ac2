//! The dashboard: phases, the pipeline with its metrics, and the last messages. Pure: it receives reports with their
//! times and returns lines.

use std::collections::VecDeque;
use std::time::Duration;

use super::numbers::Numbers;
use super::pipeline::{self, Rate};
use super::plan::{Phase, PhasePlan};
use super::report::{Ended, Importance, Report};
use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN};

/// Number of messages shown.
const SHOWN: usize = 4;
/// Width of the bars.
const BAR: usize = 24;

/// State of the dashboard.
#[derive(Debug)]
pub(super) struct Dashboard {
    rows: Vec<Row>,
    happened: VecDeque<Message>,
    reconciles: Rate,
}

/// A message and its count.
#[derive(Debug)]
struct Message {
    /// Time of the last occurrence.
    at: Duration,
    importance: Importance,
    text: String,
    times: u32,
}

/// Progress of a phase.
#[derive(Debug)]
struct Row {
    phase: Phase,
    writes: usize,
    wrote: usize,
    /// Converged Foos and written Foos.
    settled: (usize, usize),
    began: Option<Duration>,
    ended: Option<Ended>,
}

impl Dashboard {
    pub(super) fn new(phases: &[PhasePlan]) -> Self {
        let row = |phase_plan: &PhasePlan| Row {
            phase: phase_plan.phase,
            writes: phase_plan.writes.len(),
            wrote: 0,
            settled: (0, 0),
            began: None,
            ended: None,
        };
        Dashboard { rows: phases.iter().map(row).collect(), happened: VecDeque::new(), reconciles: Rate::default() }
    }

    /// Applies a report.
    pub(super) fn take(&mut self, report: Report, now: Duration) {
        match report {
            Report::Started { phase, .. } => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.phase == phase) {
                    row.began = Some(now);
                }
            }
            Report::Wrote => _ = self.current().map(|row| row.wrote += 1),
            Report::Checked { settled, written } => _ = self.current().map(|row| row.settled = (settled, written)),
            Report::Ended(ended) => _ = self.current().map(|row| row.ended = Some(ended)),
            Report::Message { importance, text } => self.add_message(importance, text, now),
        }
    }

    /// Adds a message. A repeated message moves to the end.
    fn add_message(&mut self, importance: Importance, text: String, now: Duration) {
        let shown = self.happened.iter().position(|message| message.text == text);
        let before = shown.and_then(|index| self.happened.remove(index)).map_or(0, |message| message.times);
        self.happened.push_back(Message { at: now, importance, text, times: before.saturating_add(1) });
        if self.happened.len() > SHOWN {
            // Frequent messages must not displace important ones: only the last of them is shown.
            let faint = |message: &Message| message.importance == Importance::Faint;
            let is_crowded = self.happened.iter().filter(|message| faint(message)).count() > 1;
            let index = if is_crowded { self.happened.iter().position(faint) } else { None };
            self.happened.remove(index.unwrap_or(0));
        }
    }

    /// Returns the running phase.
    fn current(&mut self) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.began.is_some() && row.ended.is_none())
    }

    /// Describes the progress, for the interrupt message.
    pub(super) fn progress(&self) -> String {
        let (wrote, writes) =
            self.rows.iter().fold((0, 0), |(wrote, writes), row| (wrote + row.wrote, writes + row.writes));
        match self.rows.iter().find(|row| row.began.is_some() && row.ended.is_none()) {
            Some(row) => format!("in the phase {:?}, after {wrote} of {writes} writes", row.phase.name()),
            None => format!("after {wrote} of {writes} writes"),
        }
    }

    /// Returns the results of the finished phases.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.rows.iter().filter_map(|row| row.ended.as_ref())
    }

    /// Returns the phases that are not finished.
    pub(super) fn open(&self) -> impl Iterator<Item = Phase> {
        self.rows.iter().filter(|row| row.ended.is_none()).map(|row| row.phase)
    }

    /// Returns all lines, for a terminal of this width.
    pub(super) fn lines(&mut self, numbers: &Numbers, now: Duration, width: usize) -> Vec<Line> {
        self.reconciles.count(now, numbers.reconciles());
        let mut lines: Vec<Line> = self.rows.iter().map(|row| row.line(now)).collect();
        lines.push(Line::new());
        lines.extend(pipeline::lines(numbers, self.reconciles.per_second(), width));
        lines.push(Line::new());
        lines.extend(self.happened.iter().map(Message::line));
        lines
    }
}

impl Message {
    fn line(&self) -> Line {
        let style = match self.importance {
            Importance::Faint => FAINT,
            Importance::Good => GOOD,
            Importance::Bad => CHANGED,
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
        let sent = part(BAR, self.wrote, self.writes);
        let followed = part(sent, settled, written);
        let bar = Line::new()
            .with(NAME, name)
            .with(GOOD, "█".repeat(followed))
            .with(CHANGED, "▒".repeat(sent - followed))
            .with(FAINT, "░".repeat(BAR - sent));
        match &self.ended {
            None if self.wrote < self.writes => bar
                .with(PLAIN, format!("  {}/{} written", self.wrote, self.writes))
                .with(FAINT, time(now.saturating_sub(began))),
            None => {
                bar.with(PLAIN, format!("  {settled}/{written} converged")).with(FAINT, time(now.saturating_sub(began)))
            }
            Some(ended) if ended.mismatches.is_empty() => {
                bar.with(GOOD, format!("  {} converged", ended.times.settled)).with(FAINT, time(ended.took))
            }
            Some(ended) => {
                bar.with(BAD, format!("  {} did not converge", ended.mismatches.len())).with(FAINT, time(ended.took))
            }
        }
    }
}

/// Returns the part of `columns` that corresponds to `some` of `whole`.
fn part(columns: usize, some: usize, whole: usize) -> usize {
    (columns * some).checked_div(whole).unwrap_or(0).min(columns)
}

fn time(time: Duration) -> String {
    format!("  {:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
