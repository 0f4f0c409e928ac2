//! [`Transcript`]: the results of a client, with names that are the same for every client and every run.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The results of a client, in sections: one for each handler and object (or for each handler), one for each query,
/// one for the final cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Transcript(BTreeMap<String, Vec<String>>);

impl Transcript {
    pub(crate) fn push(&mut self, section: impl Into<String>, line: impl Into<String>) {
        self.0.entry(section.into()).or_default().push(line.into());
    }

    pub(crate) fn section(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (section, lines) in &self.0 {
            writeln!(f, "  {section}: {}", lines.join("; "))?;
        }
        Ok(())
    }
}
