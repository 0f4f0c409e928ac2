//! Output of the demo: a live dashboard on a terminal, log lines elsewhere.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use super::report::{Importance, Report};
use crate::output::{self, Output, Writing};
use crate::terminal::{self, Block, Line};

/// Terminal height that fits everything.
const HEIGHT: usize = 24;

/// Maximum number of messages logged per phase.
const MAX_MESSAGES: usize = 100;

/// Output of the demo.
pub(super) enum View {
    /// A dashboard, redrawn in place.
    Live { block: Block, is_coloured: bool },
    /// A line for each important message, once per phase.
    Plain { output: Output, writing: Writing, printed: BTreeSet<String> },
    /// The standard output is closed.
    Closed,
}

impl View {
    pub(super) fn open() -> Self {
        let stdout = io::stdout();
        if terminal::is_live(&stdout) {
            let is_coloured = terminal::has_colours(&stdout);
            return View::Live { block: Block::new(is_coloured), is_coloured };
        }
        let (output, writing) = output::open(None);
        View::Plain { output, writing, printed: BTreeSet::new() }
    }

    /// Prints lines.
    pub(super) async fn print(&mut self, lines: &[Line]) -> io::Result<()> {
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
            View::Closed => Ok(()),
        }
    }

    /// Prints a report.
    pub(super) async fn report(&mut self, report: &Report, now: Duration) {
        let View::Plain { printed, .. } = self else { return };
        match report {
            Report::Started { .. } => printed.clear(),
            Report::Message { importance: Importance::Good | Importance::Bad, text }
                if printed.len() >= MAX_MESSAGES || !printed.insert(text.clone()) =>
            {
                return;
            }
            _ => {}
        }
        if let Some(text) = report.line() {
            self.log(now, &text).await;
        }
    }

    /// Prints a log line, unless there is a dashboard.
    pub(super) async fn log(&mut self, now: Duration, text: &str) {
        if let View::Plain { output, .. } = self {
            output.line(format!("{:>8.2} s  {text}", now.as_secs_f64())).await;
        }
    }

    /// Draws a dashboard of the width of the terminal, on a terminal.
    pub(super) fn draw(&mut self, lines: impl FnOnce(usize) -> Vec<Line>) -> io::Result<()> {
        let View::Live { block, .. } = self else { return Ok(()) };
        let width = terminal::width();
        let mut lines = lines(width);
        // Lines that do not fit cannot be redrawn. The last line belongs to the cursor.
        lines.truncate(terminal::height().unwrap_or(HEIGHT).saturating_sub(1));
        block.draw(&mut io::stdout().lock(), &lines, width)
    }

    /// Keeps the dashboard on the screen.
    pub(super) fn keep(&mut self) {
        if let View::Live { block, .. } = self {
            block.keep();
        }
    }

    /// Waits for a write error, possibly forever. Nothing is printed afterwards.
    pub(super) async fn failed(&mut self) -> io::Error {
        let error = match self {
            View::Plain { writing, .. } => writing.failed().await,
            View::Live { .. } | View::Closed => std::future::pending().await,
        };
        *self = View::Closed;
        error
    }

    /// Waits for the last lines.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            View::Live { .. } | View::Closed => Ok(()),
            View::Plain { output, writing, .. } => output.end(Vec::new(), writing).await,
        }
    }
}
