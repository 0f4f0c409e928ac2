//! Terminal output: coloured lines, and a block of lines that is redrawn in place. Both are off where the stream is
//! not a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

/// Width of a terminal that does not report one.
const WIDTH: usize = 80;

/// Additions.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Changes.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// Deletions and errors.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Names.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// Secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Emphasis.
pub(crate) const STRONG: Style = Style::new().bold();
/// Default text.
pub(crate) const PLAIN: Style = Style::new();

/// A line of styled spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    pub(crate) fn new() -> Self {
        Line::default()
    }

    /// Appends a span.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// Appends another line.
    pub(crate) fn and(mut self, mut other: Line) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// Returns the width of the line.
    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().filter(|c| !is_control(*c)).count()).sum()
    }

    /// Renders the line, with or without colours, truncated to `width`.
    pub(crate) fn render(&self, is_coloured: bool, width: usize) -> String {
        let mut rendered = String::new();
        let mut room = width;
        for (style, text) in &self.0 {
            // Each character takes one column here. External text must not move the cursor.
            let shown: String = text.chars().filter(|c| !is_control(*c)).take(room).collect();
            room -= shown.chars().count();
            let _ = match is_coloured && *style != PLAIN {
                true => write!(rendered, "{style}{shown}{style:#}"),
                false => write!(rendered, "{shown}"),
            };
        }
        rendered
    }
}

/// Whether a terminal interprets the character instead of showing it: control characters and bidirectional overrides.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns external text as one line without characters that a terminal interprets: white space becomes a space,
/// other characters JSON escapes.
pub(crate) fn sanitize(text: &str) -> String {
    let mut sanitize = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => sanitize.push(' '),
            // All of them fit into one JSON escape.
            c if is_control(c) => _ = write!(sanitize, "\\u{:04x}", u32::from(c)),
            c => sanitize.push(c),
        }
    }
    sanitize
}

/// Whether a stream may have colours: it is a terminal, and neither `NO_COLOR` nor `TERM=dumb` is set.
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_lively() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a block of lines can be redrawn in place on this stream.
pub(crate) fn is_live(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_lively()
}

/// Whether the terminal supports escape sequences.
fn is_lively() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the current width of the terminal.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0).max(1))
}

/// Returns the current height of the terminal.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size().map(|(_, height)| usize::from(height.0))
}

/// A block of lines below the output so far, redrawn in place. The cursor is below it.
#[derive(Debug)]
pub(crate) struct Block {
    is_coloured: bool,
    /// Widths of the drawn lines.
    drawn: Vec<usize>,
}

impl Block {
    pub(crate) fn new(is_coloured: bool) -> Self {
        Block { is_coloured, drawn: Vec::new() }
    }

    /// Replaces the drawn lines by these.
    pub(crate) fn draw(&mut self, out: &mut impl Write, lines: &[Line], width: usize) -> io::Result<()> {
        let mut frame = self.up(width);
        self.drawn.clear();
        for line in lines {
            // The last column stays free: terminals differ in whether they wrap there.
            let room = width.saturating_sub(1);
            let _ = write!(frame, "\x1b[K{}\r\n", line.render(self.is_coloured, room));
            self.drawn.push(line.width().min(room));
        }
        frame.push_str("\x1b[J");
        // One write, so that no partial frame is visible.
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Removes the lines.
    pub(crate) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        let up = self.up(width());
        self.drawn.clear();
        write!(out, "{up}\x1b[J")?;
        out.flush()
    }

    /// Keeps the lines; further output follows below them.
    pub(crate) fn keep(&mut self) {
        self.drawn.clear();
    }

    /// Moves to the start of the block. A terminal that became narrower has wrapped the lines that no longer fit.
    fn up(&self, width: usize) -> String {
        match self.drawn.iter().map(|line| line.div_ceil(width.max(1)).max(1)).sum() {
            0_usize => "\r".to_owned(),
            lines => format!("\r\x1b[{lines}A"),
        }
    }
}

#[cfg(test)]
mod tests;
