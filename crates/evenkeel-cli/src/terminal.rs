//! What people look at: lines with colours, and a block of lines that is drawn over and over. Where nobody looks, neither.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

/// How wide a terminal is that does not say.
const WIDTH: usize = 80;

/// What came.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What changed.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// What went, and what went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What things are called.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// What one need not read.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// What one should.
pub(crate) const STRONG: Style = Style::new().bold();
/// Everything else.
pub(crate) const PLAIN: Style = Style::new();

/// A line, in pieces that look different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    pub(crate) fn new() -> Self {
        Line::default()
    }

    /// The line and some more.
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The line and another one behind it.
    pub(crate) fn and(mut self, mut other: Line) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// How wide the whole line is.
    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().filter(|c| !is_obeyed(*c)).count()).sum()
    }

    /// The text, with colours or without, and no wider than this.
    pub(crate) fn render(&self, is_coloured: bool, width: usize) -> String {
        let mut rendered = String::new();
        let mut room = width;
        for (style, text) in &self.0 {
            // What is written here is one column wide per character; anything that comes from outside may not move the cursor.
            let shown: String = text.chars().filter(|c| !is_obeyed(*c)).take(room).collect();
            room -= shown.chars().count();
            let _ = match is_coloured && *style != PLAIN {
                true => write!(rendered, "{style}{shown}{style:#}"),
                false => write!(rendered, "{shown}"),
            };
        }
        rendered
    }
}

/// Whether a terminal would do something instead of showing it: control characters, and those that turn the direction of
/// the text around them.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text in one line that no terminal obeys, whoever wrote it: white space becomes a space, anything else an escape as
/// JSON writes it.
pub(crate) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => harmless.push(' '),
            // None of them is so large that JSON would need two escapes for it.
            c if is_obeyed(c) => _ = write!(harmless, "\\u{:04x}", u32::from(c)),
            c => harmless.push(c),
        }
    }
    harmless
}

/// Whether a stream may have colours: it is a terminal, and nobody has said otherwise (`NO_COLOR`, `TERM=dumb`).
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_lively() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a block of lines can be drawn over and over on this stream.
pub(crate) fn is_live(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && is_lively()
}

/// Whether the terminal understands what is sent to it.
fn is_lively() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How wide the terminal is now.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0).max(1))
}

/// How many lines the terminal has now.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size().map(|(_, height)| usize::from(height.0))
}

/// A block of lines at the bottom of what was written so far, drawn over and over. The cursor is below it.
#[derive(Debug)]
pub(crate) struct Block {
    is_coloured: bool,
    /// How wide each line is that was drawn.
    drawn: Vec<usize>,
}

impl Block {
    pub(crate) fn new(is_coloured: bool) -> Self {
        Block { is_coloured, drawn: Vec::new() }
    }

    /// Draws these lines where the last ones were.
    pub(crate) fn draw(&mut self, out: &mut impl Write, lines: &[Line], width: usize) -> io::Result<()> {
        let mut frame = self.up(width);
        self.drawn.clear();
        for line in lines {
            // The last column stays free: some terminals go to the next line there, some do not.
            let room = width.saturating_sub(1);
            let _ = write!(frame, "\x1b[K{}\r\n", line.render(self.is_coloured, room));
            self.drawn.push(line.width().min(room));
        }
        frame.push_str("\x1b[J");
        // In one go, so that nobody sees half of it.
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Takes the lines away, so that something else can stand there.
    pub(crate) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        let up = self.up(width());
        self.drawn.clear();
        write!(out, "{up}\x1b[J")?;
        out.flush()
    }

    /// Lets the lines stand; what is written next stands below them.
    pub(crate) fn keep(&mut self) {
        self.drawn.clear();
    }

    /// To where the block begins. A terminal that has become narrower has broken the lines that no longer fit.
    fn up(&self, width: usize) -> String {
        match self.drawn.iter().map(|line| line.div_ceil(width.max(1)).max(1)).sum() {
            0_usize => "\r".to_owned(),
            lines => format!("\r\x1b[{lines}A"),
        }
    }
}

#[cfg(test)]
mod tests;
