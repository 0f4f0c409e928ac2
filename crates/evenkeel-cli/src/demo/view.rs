//! What the demo shows: three live lines on a terminal, a line per event elsewhere.

use std::io::{self, IsTerminal, Write};

use super::ledger::{Counts, Ledger};
use super::observe::Seen;

/// How wide the bar of living objects may get. With what stands beside it, it fits into 80 columns.
const BAR: usize = 60;

#[derive(Debug)]
pub(crate) struct View {
    live: bool,
    /// Whether the live lines are on the screen, above the cursor.
    drawn: bool,
}

impl View {
    pub(crate) fn new() -> Self {
        View { live: io::stdout().is_terminal(), drawn: false }
    }

    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Something that the watch saw.
    pub(crate) fn seen(&mut self, seen: &Seen) -> io::Result<()> {
        if self.live {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match seen {
            Seen::Event(event) => writeln!(out, "{:<8} {} value {}", event.change, event.name, event.value),
            Seen::Break { revision } => writeln!(out, "the watch broke; it goes on from resource version {revision}"),
        }
    }

    /// Draws the live lines in their place.
    pub(crate) fn draw(&mut self, ledger: &Ledger) -> io::Result<()> {
        if !self.live {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if std::mem::replace(&mut self.drawn, true) {
            write!(out, "\x1b[3A")?;
        }
        let (done, seen) = (ledger.done(), ledger.seen());
        let row = |counts: Counts| {
            let Counts { added, modified, deleted } = counts;
            format!("{added:>6} created {modified:>6} changed {deleted:>6} deleted")
        };
        writeln!(out, "\x1b[Kwritten {}", row(done))?;
        writeln!(out, "\x1b[Kseen    {}   breaks {}", row(seen), ledger.breaks())?;
        let alive = seen.added.saturating_sub(seen.deleted);
        writeln!(out, "\x1b[Kalive   {alive:>6} {}", "#".repeat(bar(alive, ledger.objects())))?;
        out.flush()
    }

    /// What came of it.
    pub(crate) fn finish(&mut self, ledger: &Ledger) -> io::Result<()> {
        self.draw(ledger)?;
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "\nobjects {}, writes {}, events {}, breaks of the watch {}",
            ledger.objects(),
            ledger.done().total(),
            ledger.seen().total(),
            ledger.breaks(),
        )?;
        match ledger.verdict() {
            Ok(()) => writeln!(out, "converged: the watch saw exactly what was done, in order"),
            Err(_) => writeln!(out, "did not converge"),
        }
    }
}

/// One mark for each object while they fit, and the full width for all of them when they do not.
fn bar(alive: usize, objects: usize) -> usize {
    if objects <= BAR { alive.min(BAR) } else { (alive * BAR).div_ceil(objects).min(BAR) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fits_however_many_objects_there_are() {
        assert_eq!((bar(0, 20), bar(20, 20), bar(60, 60)), (0, 20, 60));
        assert_eq!((bar(0, 5000), bar(1, 5000), bar(2500, 5000), bar(5000, 5000)), (0, 1, 30, 60));
        assert_eq!(bar(0, 0), 0);
    }
}
