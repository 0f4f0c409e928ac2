//! How far the first list is, for people who look at a terminal.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::terminal;

/// How often it is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// Something that moves, so that it is seen that something happens.
const WHEEL: [char; 4] = ['|', '/', '-', '\\'];

/// A line on the standard error that is drawn over and over. Nothing is drawn where that is no terminal.
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
            // What takes no time needs no line.
            let mut frames = interval_at(Instant::now() + FRAME, FRAME);
            frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
            frames
        });
        Progress { what: what.to_owned(), frames, turn: 0, is_drawn: false }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.frames.is_some()
    }

    /// Waits until it is time to draw.
    pub(super) async fn next(&mut self) {
        match &mut self.frames {
            Some(frames) => _ = frames.tick().await,
            None => std::future::pending().await,
        }
    }

    /// Draws it, with so many objects that have come.
    pub(super) fn draw(&mut self, objects: usize) {
        self.turn = (self.turn + 1) % WHEEL.len();
        let wheel = WHEEL.get(self.turn).unwrap_or(&' ');
        let what = &self.what;
        // What cannot be drawn need not be seen.
        let _ = write!(io::stderr().lock(), "\r\x1b[K{wheel} {what}: {objects} so far");
        self.is_drawn = true;
    }

    /// Takes it away, so that something else can stand there.
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
