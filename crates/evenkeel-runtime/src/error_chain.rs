//! [`ErrorChain`]: an error and its causes in one line.

use std::error::Error as StdError;
use std::fmt;

/// The number of causes that are shown.
const DEPTH: usize = 32;

/// Shows an error and its causes, separated by colons. A cause whose text the error before it contains is left out, because many
/// errors repeat the text of their source.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a (dyn StdError + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        for cause in std::iter::successors(self.0.source(), |&error| error.source()).take(DEPTH) {
            let text = cause.to_string();
            if !shown.contains(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
        }
        Ok(())
    }
}
