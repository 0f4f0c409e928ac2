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
    /// How many times a task had run.
    pub step: u64,
    /// The process, with the number of its life if it has crashed before; `cluster` for what happens to all.
    pub process: String,
    /// The number of the life of the process: 1, and one more after each crash.
    pub life: u32,
    /// What happened.
    pub what: String,
}

impl Trace {
    pub(crate) fn push(&mut self, line: TraceLine) {
        for byte in line.process.bytes().chain([0]).chain(line.what.bytes()) {
            self.hash = mix(self.hash ^ u64::from(byte));
        }
        self.hash = mix(self.hash ^ u64::try_from(line.at.as_micros()).unwrap_or(u64::MAX));
        self.note(line);
    }

    /// Adds a line that is not part of the hash.
    pub(crate) fn note(&mut self, line: TraceLine) {
        if self.lines.len() < LIMIT {
            self.lines.push(line);
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

impl TraceLine {
    /// Returns the name of the process without the number of its life.
    pub(crate) fn process_name(&self) -> &str {
        let suffix = format!(" (life {})", self.life);
        self.process.strip_suffix(&suffix).unwrap_or(&self.process)
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.at.as_secs() / 60, self.at.as_secs() % 60);
        write!(f, "{minutes:>3}:{seconds:02}.{:03}  {:<16} {}", self.at.subsec_millis(), self.process, self.what)
    }
}
