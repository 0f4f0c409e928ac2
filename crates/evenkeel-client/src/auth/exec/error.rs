//! [`ExecProblem`]: why an exec plugin returned no credential.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

/// Why an exec plugin returned no credential. Nothing of its stdout is shown, and its stderr without secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecProblem {
    /// There is no such command.
    #[error("is not installed: no executable file of this name was found{}", Suffix("\n\n", hint.as_deref().unwrap_or_default()))]
    NotFound {
        /// The plugin's hint on how to install it, at most ten times an hour.
        hint: Option<String>,
    },
    /// `PATH` leads to a file in the current directory, which is not run.
    #[error("was found through a relative entry of PATH at {}, and is not run", path.display())]
    CurrentDirectory {
        /// The file.
        path: PathBuf,
    },
    /// The policy of the configuration denies the command.
    #[error("is denied by the plugin policy")]
    Denied,
    /// The plugin must be interactive, and stdin is no terminal.
    #[error("cannot run: it needs a terminal, and standard input is not a terminal")]
    NoTerminal,
    /// The plugin must be interactive, and the program uses stdin itself.
    #[error("cannot run: it needs a terminal, and standard input is unavailable{}", Suffix(": ", reason))]
    StdinUnavailable {
        /// The reason, as configured.
        reason: String,
    },
    /// The command could not be started.
    #[error("cannot be started: {0}")]
    Start(io::Error),
    /// The plugin reported an error.
    #[error("failed with {}{}", Code(*code), Suffix(": ", stderr))]
    Exit {
        /// The exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// The end of what it printed to stderr, without secrets. Empty if it was interactive.
        stderr: String,
    },
    /// The plugin did not finish in time, and was killed.
    #[error("did not finish within {limit:?}{}", Suffix(": ", stderr))]
    Timeout {
        /// The timeout.
        limit: Duration,
        /// The end of what it printed to stderr, without secrets.
        stderr: String,
    },
    /// The plugin printed more than the limit, and was killed.
    #[error("printed more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The output of the plugin could not be read.
    #[error("printed what could not be read: {0}")]
    Read(io::Error),
    /// The plugin printed a credential that had expired.
    #[error("printed a credential that expired at {at}; compare the clock of this machine")]
    Expired {
        /// The expiry.
        at: Timestamp,
    },
    /// The plugin did not print a credential.
    #[error("printed no credential: {problem}")]
    Output {
        /// What is wrong with the output.
        problem: String,
    },
}

impl ExecProblem {
    pub(super) fn output(problem: impl Into<String>) -> Self {
        ExecProblem::Output { problem: problem.into() }
    }
}

struct Code(Option<i32>);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => write!(f, "exit code {code}"),
            None => f.write_str("a signal"),
        }
    }
}

/// A text after a separator, or nothing.
struct Suffix<'a>(&'static str, &'a str);

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() { Ok(()) } else { write!(f, "{}{}", self.0, self.1) }
    }
}
