//! Formats notifications.

use std::time::Duration;

use evenkeel_cache::{Deleted, Event};
use serde::Serialize;

use super::diff::{Change, Printable, hidden};
use crate::terminal::{self, BAD, CHANGED, FAINT, GOOD, NAME, PLAIN, STRONG, sanitize};

/// Initial width of the key column. It grows with the keys.
const KEYS: usize = 24;
/// Maximum number of differences in text output.
const CHANGES: usize = 20;
/// Maximum length of a value in text output.
const VALUE: usize = 60;
/// Length of the common prefix that is kept before the first difference of two long values.
const COMMON: usize = 12;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// JSON.
    Json,
    /// Plain text, for files and pipes.
    Plain,
    /// Text on a terminal.
    Terminal { is_coloured: bool },
}

/// Formats notifications as lines.
#[derive(Debug)]
pub(super) struct Lines {
    format: OutputFormat,
    width: usize,
}

/// A line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum Line<'a> {
    Add {
        initial: bool,
        key: &'a str,
        resource_version: &'a str,
    },
    Update {
        key: &'a str,
        old_resource_version: &'a str,
        resource_version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a [Change<'a>]>,
    },
    Delete {
        key: &'a str,
        resource_version: &'a str,
        final_state_unknown: bool,
    },
    Synced {
        objects: usize,
    },
}

impl<'a> Line<'a> {
    fn of<K>(event: &'a Event<K>, diff: Option<&'a [Change<'a>]>) -> Self {
        let key = event.key().as_str();
        let resource_version = event.object().map_or("", |object| object.resource_version());
        match event {
            Event::Add { initial, .. } => Line::Add { initial: *initial, key, resource_version },
            Event::Update { old, .. } => {
                Line::Update { key, old_resource_version: old.resource_version(), resource_version, diff }
            }
            Event::Delete(deleted) => {
                let final_state_unknown = Deleted::is_final_state_unknown(deleted);
                Line::Delete { key, resource_version, final_state_unknown }
            }
        }
    }

    /// Returns the event name, the key and the versions.
    fn columns(&self) -> (&'static str, &str, String) {
        match self {
            Line::Add { initial, key, resource_version } => {
                (if *initial { "initial" } else { "add" }, key, (*resource_version).to_owned())
            }
            Line::Update { key, old_resource_version, resource_version, .. } => {
                let versions = match self.is_unchanged() {
                    true => format!("{resource_version} (unchanged)"),
                    false => format!("{old_resource_version} -> {resource_version}"),
                };
                ("update", key, versions)
            }
            Line::Delete { key, resource_version, final_state_unknown } => {
                let unknown = if *final_state_unknown { " (final state unknown)" } else { "" };
                ("delete", key, format!("{resource_version}{unknown}"))
            }
            Line::Synced { .. } => ("synced", "", String::new()),
        }
    }

    fn is_unchanged(&self) -> bool {
        matches!(self, Line::Update { old_resource_version, resource_version, .. } if old_resource_version == resource_version)
    }
}

impl Lines {
    pub(super) fn new(format: OutputFormat) -> Self {
        Lines { format, width: KEYS }
    }

    /// Formats a notification: one line, and in text one more per difference. `time` is the time of day.
    pub(super) fn event<K>(&mut self, event: &Event<K>, diff: Option<&[Change<'_>]>, time: Duration) -> Vec<String> {
        self.width = self.width.max(event.key().as_str().chars().count());
        let line = Line::of(event, diff);
        let mut lines = vec![self.line(&line, time)];
        if let Some(changes) = diff.filter(|_| self.format != OutputFormat::Json && !line.is_unchanged()) {
            lines.extend(self.changes(changes));
        }
        lines
    }

    /// Formats the synced event: the initial list is complete.
    pub(super) fn synced(&self, objects: usize, time: Duration) -> String {
        self.line(&Line::Synced { objects }, time)
    }

    /// Formats an error, on a terminal.
    pub(super) fn trouble(&self, text: &str, time: Duration) -> String {
        let line = terminal::Line::new().with(FAINT, clock(time)).with(PLAIN, " ").with(BAD, format!("! {text}"));
        line.render(self.format == OutputFormat::Terminal { is_coloured: true }, usize::MAX)
    }

    fn line(&self, line: &Line<'_>, time: Duration) -> String {
        let (word, key, versions) = line.columns();
        let width = self.width;
        match (self.format, line) {
            // Strings, numbers and booleans always serialize.
            (OutputFormat::Json, _) => sanitize(&serde_json::to_string(line).unwrap_or_default()),
            (OutputFormat::Plain, Line::Synced { objects }) => format!("synced  {}", count(*objects)),
            (OutputFormat::Plain, _) => sanitize(&format!("{word:<8}{key:<width$}  {versions}")),
            (OutputFormat::Terminal { is_coloured }, _) => {
                let (sign, style) = match line {
                    Line::Add { initial: true, .. } => ('+', FAINT),
                    Line::Add { initial: false, .. } => ('+', GOOD),
                    Line::Update { .. } if line.is_unchanged() => ('=', FAINT),
                    Line::Update { .. } => ('~', CHANGED),
                    Line::Delete { .. } => ('-', BAD),
                    Line::Synced { .. } => ('*', STRONG),
                };
                let shown = terminal::Line::new()
                    .with(FAINT, clock(time))
                    .with(PLAIN, " ")
                    .with(style, format!("{sign} {word:<8}"));
                let shown = match line {
                    Line::Synced { objects } => shown.with(PLAIN, count(*objects)),
                    _ => shown.with(PLAIN, format!("{key:<width$}  ")).with(FAINT, versions),
                };
                shown.render(is_coloured, usize::MAX)
            }
        }
    }

    /// Formats the differences, one per line, up to a limit.
    fn changes(&self, changes: &[Change<'_>]) -> Vec<String> {
        let (indent, is_coloured) = match self.format {
            // Aligned with the signs of the events.
            OutputFormat::Terminal { is_coloured } => (10, is_coloured),
            _ => (8, false),
        };
        let render = |line: terminal::Line| line.render(is_coloured, usize::MAX);
        let margin = || terminal::Line::new().with(PLAIN, " ".repeat(indent));
        if changes.is_empty() {
            return vec![render(margin().with(FAINT, "  (only fields that --diff ignores)"))];
        }
        let mut lines: Vec<String> =
            changes.iter().take(CHANGES).map(|change| render(shown(margin(), change))).collect();
        if changes.len() > CHANGES {
            lines.push(render(margin().with(FAINT, format!("  … and {} more", changes.len() - CHANGES))));
        }
        lines
    }
}

/// Formats a difference after its margin.
fn shown(line: terminal::Line, change: &Change<'_>) -> terminal::Line {
    let path = format!("{}: ", if change.path.is_empty() { "(all)" } else { &change.path });
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            let (old, new) = both(old, new);
            line.with(PLAIN, "  ").with(NAME, path).with(BAD, old).with(PLAIN, " -> ").with(GOOD, new)
        }
        (Some(old), None) => line.with(BAD, "- ").with(NAME, path).with(BAD, cut(&text(old), 0)),
        (None, Some(new)) => line.with(GOOD, "+ ").with(NAME, path).with(GOOD, cut(&text(new), 0)),
        (None, None) => line.with(NAME, path),
    }
}

fn text(seen: &Printable<'_>) -> String {
    match seen {
        // JSON keeps some characters that a terminal interprets.
        Printable::Value(value) => sanitize(&value.to_string()),
        Printable::Hidden { bytes } => hidden(*bytes),
    }
}

/// Formats two values, truncated around their first difference.
fn both(old: &Printable<'_>, new: &Printable<'_>) -> (String, String) {
    let (old, new) = (text(old), text(new));
    if old.chars().count().max(new.chars().count()) <= VALUE {
        return (old, new);
    }
    let common = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
    let from = if common > VALUE / 2 { common - COMMON } else { 0 };
    (cut(&old, from), cut(&new, from))
}

/// Returns a part of a text, from this character on.
fn cut(text: &str, from: usize) -> String {
    let before = if from > 0 { "…" } else { "" };
    let mut rest = text.chars().skip(from);
    let shown: String = rest.by_ref().take(VALUE).collect();
    let after = if rest.next().is_some() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

fn count(objects: usize) -> String {
    format!("{objects} {}", if objects == 1 { "object" } else { "objects" })
}

/// Formats the time of day, in UTC as Kubernetes does.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
