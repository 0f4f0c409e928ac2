//! Progress of the initial list, on a terminal.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::terminal;

/// Refresh interval.
const FRAME: Duration = Duration::from_millis(100);
/// Spinner.
const WHEEL: [char; 4] = ['|', '/', '-', '\\'];

/// A progress line on the standard error, redrawn in place. Nothing is drawn if that is not a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    what: String,
    frames: Option<Interval>,
    turn: usize,
    is_drawn: bool,
}

impl Progress {
    pub(super) fn new(what: &str, is_wanted: bool) -> Self {
        let frames = (is_wanted && terminal::is_live(&io::stderr())).then(|| {
            // A fast list shows no progress line.
            let mut frames = interval_at(Instant::now() + FRAME, FRAME);
            frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
            frames
        });
        Progress { what: what.to_owned(), frames, turn: 0, is_drawn: false }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.frames.is_some()
    }

    /// Waits for the next refresh.
    pub(super) async fn next(&mut self) {
        match &mut self.frames {
            Some(frames) => _ = frames.tick().await,
            None => std::future::pending().await,
        }
    }

    /// Draws the line with the number of objects received.
    pub(super) fn draw(&mut self, objects: usize) {
        self.turn = (self.turn + 1) % WHEEL.len();
        let wheel = WHEEL.get(self.turn).unwrap_or(&' ');
        let what = &self.what;
        // A drawing error is ignored.
        let _ = write!(io::stderr().lock(), "\r\x1b[K{wheel} {what}: {objects} so far");
        self.is_drawn = true;
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
