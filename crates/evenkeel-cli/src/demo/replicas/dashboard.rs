//! The dashboard of the demo of replicas: phases, the hash space, replicas, and the last messages. Pure: it receives reports with
//! their times and returns lines.

use std::collections::VecDeque;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::division::percent;
use super::plan::Phase;
use super::report::{Ended, Report, Snapshot};
use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// Number of messages shown.
const SHOWN: usize = 6;
/// Maximum width of the bar of the hash space.
const BAR: usize = 96;
/// Colours of replicas.
const COLOURS: [AnsiColor; 8] = [
    AnsiColor::Blue,
    AnsiColor::Yellow,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Cyan,
    AnsiColor::BrightBlue,
    AnsiColor::BrightYellow,
    AnsiColor::BrightGreen,
];

/// State of the dashboard.
#[derive(Debug)]
pub(super) struct Dashboard {
    rows: Vec<Row>,
    snapshot: Snapshot,
    messages: VecDeque<(Duration, bool, String)>,
    verified: Option<Option<String>>,
}

#[derive(Debug)]
struct Row {
    phase: Phase,
    began: Option<Duration>,
    ended: Option<Ended>,
}

impl Dashboard {
    pub(super) fn new(phases: &[Phase]) -> Self {
        let row = |phase: &Phase| Row { phase: *phase, began: None, ended: None };
        let rows = phases.iter().map(row).collect();
        Dashboard { rows, snapshot: Snapshot::default(), messages: VecDeque::new(), verified: None }
    }

    /// Applies a report.
    pub(super) fn take(&mut self, report: Report, now: Duration) {
        match report {
            Report::Started(_) => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.began.is_none()) {
                    row.began = Some(now);
                }
            }
            Report::Looked(snapshot) => self.snapshot = snapshot,
            Report::Message { is_bad, text } => {
                self.messages.push_back((now, is_bad, text));
                if self.messages.len() > SHOWN {
                    self.messages.pop_front();
                }
            }
            Report::Ended(ended) => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.is_running()) {
                    row.ended = Some(ended);
                }
            }
            Report::Verified(problem) => self.verified = Some(problem),
        }
    }

    /// Describes the progress, for the interrupt message.
    pub(super) fn progress(&self) -> String {
        match self.rows.iter().find(|row| row.is_running()) {
            Some(row) => format!("in the phase {:?}", row.phase.name()),
            None => "between two phases".to_owned(),
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

    /// Returns how the comparison of the objects has ended, if it has.
    pub(super) fn verified(&self) -> Option<&Option<String>> {
        self.verified.as_ref()
    }

    /// Returns all lines, for a terminal of this width.
    pub(super) fn lines(&self, now: Duration, width: usize) -> Vec<Line> {
        let mut lines: Vec<Line> =
            self.rows.iter().map(|row| row.line(now, self.snapshot.waiting.as_deref())).collect();
        lines.push(Line::new());
        lines.push(self.bar(BAR.min(width.saturating_sub(2)).max(16)));
        lines.extend(self.replicas());
        let proof = Line::new().with(PLAIN, format!("{} reconciles, ", self.snapshot.reconciles));
        lines.push(match self.snapshot.overlaps {
            0 => proof.with(GOOD, "0 overlaps"),
            overlaps => proof.with(BAD, format!("{overlaps} overlaps")),
        });
        lines.push(Line::new());
        lines.extend(self.messages.iter().map(|(at, is_bad, text)| {
            let style = if *is_bad { CHANGED } else { PLAIN };
            Line::new().with(FAINT, format!("{:>7.2} s  ", at.as_secs_f64())).with(style, text.as_str())
        }));
        lines
    }

    /// The hash space from 0 to 2^64: the owner of the middle of each column.
    fn bar(&self, columns: usize) -> Line {
        let division = &self.snapshot.division;
        let working = self.snapshot.working();
        (0..columns).fold(Line::new(), |line, column| {
            let middle = (column as u128 * 2 + 1) * (1 << 63) / columns as u128;
            let slice = division.slice_at(u64::try_from(middle).unwrap_or(u64::MAX));
            let Some((slice, owner)) = slice.and_then(|slice| Some((slice, slice.owner.as_deref()?))) else {
                return line.with(FAINT, "·");
            };
            match (working.contains(owner), &slice.target) {
                (false, _) => line.with(BAD, "x"),
                (true, None) => line.with(colour(owner), "█"),
                (true, Some(target)) => line.with(colour(target), "▒"),
            }
        })
    }

    fn replicas(&self) -> impl Iterator<Item = Line> {
        let division = &self.snapshot.division;
        let row = |replica: &str, state: &str| {
            let (share, slices) = division.share_of(replica);
            Line::new()
                .with(colour(replica), "█ ")
                .with(NAME, format!("{replica:<12}"))
                .with(PLAIN, format!("{:>8}{slices:>4} slices", percent(share)))
                .with(FAINT, state)
        };
        let mut lines: Vec<Line> = self
            .snapshot
            .replicas
            .iter()
            .map(|(replica, reconciles)| row(replica, &format!("  {reconciles} reconciles")))
            .collect();
        lines.extend(self.snapshot.leaving.iter().map(|replica| row(replica, "  leaving")));
        let is_owner = |replica: &&String| division.share_of(replica).1 > 0;
        lines.extend(self.snapshot.crashed.iter().filter(is_owner).map(|replica| row(replica, "  crashed")));
        let unowned = division.unowned_share(&self.snapshot.working());
        let moving = division.moving();
        lines.push(
            Line::new()
                .with(if unowned > 0.0 { BAD } else { FAINT }, format!("  {:<12}{:>8}", "unowned", percent(unowned)))
                .with(FAINT, format!("    {moving} moving")),
        );
        lines.into_iter()
    }
}

impl Row {
    fn is_running(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    fn line(&self, now: Duration, waiting: Option<&str>) -> Line {
        let name = format!("{:<9}", self.phase.name());
        let Some(began) = self.began else {
            return Line::new().with(FAINT, name).with(FAINT, self.phase.about());
        };
        let line = Line::new().with(NAME, name);
        match &self.ended {
            None => line
                .with(STRONG, self.phase.about())
                .with(FAINT, format!("  {:.1} s", now.saturating_sub(began).as_secs_f64()))
                .with(FAINT, waiting.map(|waiting| format!("  {waiting}")).unwrap_or_default()),
            Some(Ended { problem: Some(problem), .. }) => line.with(BAD, format!("did not converge: {problem}")),
            Some(ended) => line.with(PLAIN, self.phase.about()).with(GOOD, "  converged").with(
                FAINT,
                format!(
                    "  {:.1} s, {} slices moved, longest gap {:.2} s",
                    ended.took.as_secs_f64(),
                    ended.moves,
                    ended.gaps.longest.as_secs_f64()
                ),
            ),
        }
    }
}

/// Returns the colour of a replica, by its number.
fn colour(replica: &str) -> Style {
    let number = replica.rsplit_once('-').and_then(|(_, number)| number.parse::<usize>().ok()).unwrap_or_default();
    COLOURS[number % COLOURS.len()].on_default()
}

#[cfg(test)]
mod tests;
