//! Source text of an expression, and errors that point into it.

use std::fmt::Write as _;

/// The longest source line, in bytes, that an error shows.
const MAX_SNIPPET: usize = 16 << 10;

/// The most errors that one text shows.
const MAX_SHOWN: usize = 100;

/// A place in a source text: a line from 1, a column in code points from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1.
    pub line: u32,
    /// The column in code points, from 0.
    pub column: u32,
}

/// A fault that compiling an expression found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where the fault is.
    pub location: Location,
    /// What is wrong.
    pub message: String,
}

/// The faults of an expression that does not compile. Displays as cel-go does: each with its source line and a mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CompileError {
    issues: Vec<Issue>,
    text: String,
}

impl CompileError {
    /// Returns the faults, in the order of their places.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    pub(crate) fn new(source: &Source, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.location);
        let mut text = String::new();
        for (index, issue) in issues.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                text.push('\n');
            }
            source.describe(issue, &mut text);
        }
        if issues.len() > MAX_SHOWN {
            let _ = write!(text, "\n{} more errors were truncated", issues.len() - MAX_SHOWN);
        }
        CompileError { issues, text }
    }
}

/// A source text with its lines.
#[derive(Debug)]
pub(crate) struct Source {
    text: String,
    /// The offsets in code points at which lines start.
    lines: Vec<u32>,
    /// The length in code points.
    length: u32,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let mut lines = vec![0];
        let mut length = 0;
        for character in text.chars() {
            length += 1;
            if character == '\n' {
                lines.push(length);
            }
        }
        Source { text: text.to_owned(), lines, length }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn location(&self, offset: u32) -> Location {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        Location { line: u32::try_from(line).unwrap_or(u32::MAX), column: offset.saturating_sub(start) }
    }

    fn describe(&self, issue: &Issue, text: &mut String) {
        let Location { line, column } = issue.location;
        let _ = write!(text, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
        let Some(snippet) = self.text.split('\n').nth(line.saturating_sub(1) as usize) else { return };
        if snippet.len() > MAX_SNIPPET {
            return;
        }
        let _ = write!(text, "\n | {}\n | ", snippet.replace('\t', " "));
        let mut characters = snippet.chars();
        for character in characters.by_ref().take(column as usize) {
            text.push(if character.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
        }
        text.push(if characters.next().is_some_and(|next| next.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    }
}
