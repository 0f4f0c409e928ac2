//! Where the demo is seen: a picture that moves on a terminal, lines elsewhere.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use super::numbers::Numbers;
use super::picture::Picture;
use super::report::{Report, Tone};
use crate::output::{self, Output, Writing};
use crate::terminal::{self, Block, Line};

/// A terminal of this height has room for everything.
const HEIGHT: usize = 24;

/// How many happenings of one phase are told.
const MOST_SAID: usize = 100;

/// Where the demo is seen.
pub(super) enum View {
    /// A picture, drawn over and over.
    Live { block: Block, is_coloured: bool },
    /// A line for everything that matters, and is not said in this phase already.
    Plain { output: Output, writing: Writing, said: BTreeSet<String> },
    /// Nobody reads any more.
    Gone,
}

impl View {
    pub(super) fn open() -> Self {
        let stdout = io::stdout();
        if terminal::is_live(&stdout) {
            let is_coloured = terminal::has_colours(&stdout);
            return View::Live { block: Block::new(is_coloured), is_coloured };
        }
        let (output, writing) = output::open(None);
        View::Plain { output, writing, said: BTreeSet::new() }
    }

    /// Lines that stay.
    pub(super) async fn say(&mut self, lines: &[Line]) -> io::Result<()> {
        match self {
            View::Live { block, is_coloured } => {
                let mut out = io::stdout().lock();
                block.clear(&mut out)?;
                for line in lines {
                    writeln!(out, "{}", line.render(*is_coloured, usize::MAX))?;
                }
                out.flush()
            }
            View::Plain { output, .. } => {
                for line in lines {
                    output.line(line.render(false, usize::MAX)).await;
                }
                Ok(())
            }
            View::Gone => Ok(()),
        }
    }

    /// Something was told.
    pub(super) async fn report(&mut self, report: &Report, now: Duration) {
        let View::Plain { output, said, .. } = self else { return };
        match report {
            Report::Began { .. } => said.clear(),
            Report::Happened { tone: Tone::Good | Tone::Bad, text }
                if said.len() >= MOST_SAID || !said.insert(text.clone()) =>
            {
                return;
            }
            _ => {}
        }
        if let Some(text) = report.line() {
            output.line(format!("{:>8.2} s  {text}", now.as_secs_f64())).await;
        }
    }

    /// Draws the picture, if that is how it is seen.
    pub(super) fn draw(&mut self, picture: &mut Picture, numbers: &Numbers, now: Duration) -> io::Result<()> {
        let View::Live { block, .. } = self else { return Ok(()) };
        let width = terminal::width();
        let mut lines = picture.lines(numbers, now, width);
        // What does not fit cannot be drawn over. The last line is the cursor's.
        lines.truncate(terminal::height().unwrap_or(HEIGHT).saturating_sub(1));
        block.draw(&mut io::stdout().lock(), &lines, width)
    }

    /// Lets the picture stand as it is.
    pub(super) fn keep(&mut self) {
        if let View::Live { block, .. } = self {
            block.keep();
        }
    }

    /// Waits until nobody reads any more, which may be never. From then on nothing is said.
    pub(super) async fn failed(&mut self) -> io::Error {
        let error = match self {
            View::Plain { writing, .. } => writing.failed().await,
            View::Live { .. } | View::Gone => std::future::pending().await,
        };
        *self = View::Gone;
        error
    }

    /// Waits for the last lines.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            View::Live { .. } | View::Gone => Ok(()),
            View::Plain { output, writing, .. } => output.end(Vec::new(), writing).await,
        }
    }
}
