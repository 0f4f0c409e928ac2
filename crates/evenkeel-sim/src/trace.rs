//! [`Trace`]: what happened in a run, in plain words.

use std::fmt;
use std::time::Duration;

use crate::decisions::mix;

/// At most this many lines are kept. The hash covers all.
const LIMIT: usize = 20_000;

/// The timeline of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Vec<TraceLine>,
    /// Lines beyond the limit.
    omitted: u64,
    hash: u64,
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// The virtual time since the start.
    pub at: Duration,
    /// The process, with the number of its life if it has crashed before; `cluster` for what happens to all.
    pub process: String,
    /// What happened.
    pub what: String,
}

impl Trace {
    pub(crate) fn push(&mut self, at: Duration, process: &str, what: String) {
        for byte in process.bytes().chain([0]).chain(what.bytes()) {
            self.hash = mix(self.hash ^ u64::from(byte));
        }
        self.hash = mix(self.hash ^ u64::try_from(at.as_micros()).unwrap_or(u64::MAX));
        self.note(at, process, what);
    }

    /// Adds a line that is not part of the hash.
    pub(crate) fn note(&mut self, at: Duration, process: &str, what: String) {
        if self.lines.len() < LIMIT {
            self.lines.push(TraceLine { at, process: process.to_owned(), what });
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the lines in their order, at most 20,000.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// Returns a hash of all lines but logs, and their times. Equal runs have equal hashes.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if self.omitted > 0 {
            writeln!(f, "… {} more lines", self.omitted)?;
        }
        Ok(())
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.at.as_secs() / 60, self.at.as_secs() % 60);
        write!(f, "{minutes:>3}:{seconds:02}.{:03}  {:<16} {}", self.at.subsec_millis(), self.process, self.what)
    }
}
