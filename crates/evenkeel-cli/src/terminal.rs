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

    /// The text, with colours or without, and no wider than this.
    pub(crate) fn render(&self, is_coloured: bool, width: usize) -> String {
        let mut rendered = String::new();
        let mut room = width;
        for (style, text) in &self.0 {
            // What is written here is one column wide per character; anything that comes from outside may not move the cursor.
            let shown: String = text.chars().filter(|c| !c.is_control()).take(room).collect();
            room -= shown.chars().count();
            let _ = match is_coloured && *style != PLAIN {
                true => write!(rendered, "{style}{shown}{style:#}"),
                false => write!(rendered, "{shown}"),
            };
        }
        rendered
    }
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
    /// How many lines were drawn.
    drawn: usize,
}

impl Block {
    pub(crate) fn new(is_coloured: bool) -> Self {
        Block { is_coloured, drawn: 0 }
    }

    /// Draws these lines where the last ones were.
    pub(crate) fn draw(&mut self, out: &mut impl Write, lines: &[Line], width: usize) -> io::Result<()> {
        let mut frame = self.up();
        for line in lines {
            // The last column stays free: some terminals go to the next line there, some do not.
            let _ = write!(frame, "\x1b[K{}\r\n", line.render(self.is_coloured, width.saturating_sub(1)));
        }
        frame.push_str("\x1b[J");
        self.drawn = lines.len();
        // In one go, so that nobody sees half of it.
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Takes the lines away, so that something else can stand there.
    pub(crate) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn == 0 {
            return Ok(());
        }
        let up = self.up();
        self.drawn = 0;
        write!(out, "{up}\x1b[J")?;
        out.flush()
    }

    /// Lets the lines stand; what is written next stands below them.
    pub(crate) fn keep(&mut self) {
        self.drawn = 0;
    }

    /// To where the block begins.
    fn up(&self) -> String {
        match self.drawn {
            0 => "\r".to_owned(),
            lines => format!("\r\x1b[{lines}A"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_terminal_ends_and_cannot_move_the_cursor() {
        let line = Line::new().with(GOOD, "add").with(PLAIN, " ns/\x1b[2Ja\nb");
        assert_eq!(line.render(false, 80), "add ns/[2Jab");
        assert_eq!(line.render(false, 5), "add n");
        assert_eq!(line.render(true, 4), "\x1b[32madd\x1b[0m ");
        assert_eq!(line.render(false, 0), "");
    }

    #[test]
    fn a_block_is_drawn_over_itself() {
        let mut block = Block::new(false);
        let mut out = Vec::new();
        let lines = [Line::new().with(PLAIN, "one"), Line::new().with(PLAIN, "two")];
        block.draw(&mut out, &lines, 80).unwrap();
        block.draw(&mut out, &lines[..1], 80).unwrap();
        block.clear(&mut out).unwrap();
        block.clear(&mut out).unwrap();
        let drawn = String::from_utf8(out).unwrap();
        assert_eq!(drawn, "\r\x1b[Kone\r\n\x1b[Ktwo\r\n\x1b[J\r\x1b[2A\x1b[Kone\r\n\x1b[J\r\x1b[1A\x1b[J");
    }
}
