//! Counts of notifications.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_cache::Event;

use crate::terminal::{BAD, CHANGED, FAINT, GOOD, Line, NAME, PLAIN, STRONG};

/// Maximum number of namespaces that are counted separately.
const NAMESPACES: usize = 1000;
/// Number of namespaces in the final table.
const ROWS: usize = 10;
/// Window of the rate, in seconds.
const WINDOW: usize = 10;

/// Counts of notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    initial: u64,
    added: u64,
    updated: u64,
    unchanged: u64,
    deleted: u64,
}

impl Counts {
    fn count<K>(&mut self, event: &Event<K>) {
        *match event {
            Event::Add { initial: true, .. } => &mut self.initial,
            Event::Add { initial: false, .. } => &mut self.added,
            Event::Update { old, new } if old.resource_version() == new.resource_version() => &mut self.unchanged,
            Event::Update { .. } => &mut self.updated,
            Event::Delete(_) => &mut self.deleted,
        } += 1;
    }

    fn cells(&self) -> [u64; 5] {
        [self.initial, self.added, self.updated, self.unchanged, self.deleted]
    }

    fn total(&self) -> u64 {
        self.cells().iter().sum()
    }
}

/// Counts so far. Times are relative to the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    objects: usize,
    all: Counts,
    namespaces: BTreeMap<String, Counts>,
    /// Namespaces beyond the maximum.
    others: Counts,
    rate: Rate,
}

impl Tally {
    pub(super) fn count<K>(&mut self, event: &Event<K>, now: Duration) {
        match event {
            Event::Add { .. } => self.objects += 1,
            Event::Update { .. } => {}
            Event::Delete(_) => self.objects = self.objects.saturating_sub(1),
        }
        self.all.count(event);
        self.rate.count(now);
        let namespace = event.key().namespace().unwrap_or_default();
        let has_room = self.namespaces.len() < NAMESPACES;
        match self.namespaces.get_mut(namespace) {
            Some(counts) => counts.count(event),
            None if has_room => self.namespaces.entry(namespace.to_owned()).or_default().count(event),
            None => self.others.count(event),
        }
    }

    /// Returns the number of objects.
    pub(super) fn objects(&self) -> usize {
        self.objects
    }

    /// Formats the counts in one line, for the footer.
    pub(super) fn line(&mut self, now: Duration) -> Line {
        let Counts { initial: _, added, updated, unchanged, deleted } = self.all;
        let objects = if self.objects == 1 { "object" } else { "objects" };
        let mut line = Line::new().with(STRONG, self.objects.to_string()).with(PLAIN, format!(" {objects}"));
        for (count, style, sign, word) in [
            (added, GOOD, '+', "added"),
            (updated, CHANGED, '~', "updated"),
            (unchanged, FAINT, '=', "unchanged"),
            (deleted, BAD, '-', "deleted"),
        ] {
            let style = if count == 0 { FAINT } else { style };
            line = line.with(PLAIN, "  ").with(style, format!("{sign}{count}")).with(FAINT, format!(" {word}"));
        }
        line.with(PLAIN, "  ").with(STRONG, self.rate.per_second(now)).with(FAINT, " events/s")
    }

    /// Formats the counts as a table by event, and by namespace if there are several; the busiest first.
    pub(super) fn table(&self) -> Vec<Line> {
        let mut rows: Vec<(&str, Counts)> =
            self.namespaces.iter().map(|(name, counts)| (name.as_str(), *counts)).collect();
        rows.sort_by_key(|(name, counts)| (std::cmp::Reverse(counts.total()), *name));
        let left_out = rows.len().saturating_sub(ROWS);
        match rows.len() {
            0 | 1 => rows.clear(),
            _ => rows.truncate(ROWS),
        }
        rows.push(("all", self.all));
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let heads = ["initial", "add", "update", "unchanged", "delete"];
        let mut head = Line::new().with(FAINT, " ".repeat(width));
        for name in heads {
            head = head.with(FAINT, format!("{name:>11}"));
        }
        let mut table = vec![head.with(FAINT, format!("{:>11}", "total"))];
        let last = rows.len() - 1;
        for (index, (name, counts)) in rows.into_iter().enumerate() {
            if index == last && left_out > 0 {
                let more = match self.others.total() {
                    0 => format!("… and {left_out} more namespaces"),
                    _ => format!("… and more than {left_out} more namespaces"),
                };
                table.push(Line::new().with(FAINT, more));
            }
            let mut row = Line::new().with(if index == last { STRONG } else { NAME }, format!("{name:<width$}"));
            for (cell, style) in counts.cells().into_iter().zip([GOOD, GOOD, CHANGED, PLAIN, BAD]) {
                row = row.with(if cell == 0 { FAINT } else { style }, format!("{cell:>11}"));
            }
            table.push(row.with(STRONG, format!("{:>11}", counts.total())));
        }
        table
    }
}

/// Notifications in each of the last seconds.
#[derive(Debug, Default)]
struct Rate {
    seconds: [u32; WINDOW],
    /// The second counted last.
    newest: u64,
}

impl Rate {
    fn count(&mut self, now: Duration) {
        self.forget(now);
        if let Some(second) = self.seconds.get_mut(now.as_secs() as usize % WINDOW) {
            *second = second.saturating_add(1);
        }
    }

    /// Advances the window to `now`.
    fn forget(&mut self, now: Duration) {
        let now = now.as_secs().max(self.newest);
        for second in self.newest.saturating_add(1).max(now.saturating_sub(WINDOW as u64 - 1))..=now {
            if let Some(slot) = self.seconds.get_mut(second as usize % WINDOW) {
                *slot = 0;
            }
        }
        self.newest = now;
    }

    fn per_second(&mut self, now: Duration) -> String {
        self.forget(now);
        let counted: u64 = self.seconds.iter().map(|count| u64::from(*count)).sum();
        // Seconds before the start do not count.
        let seconds = self.newest.saturating_add(1).min(WINDOW as u64);
        format!("{:.1}", counted as f64 / seconds as f64)
    }
}

#[cfg(test)]
mod tests;
