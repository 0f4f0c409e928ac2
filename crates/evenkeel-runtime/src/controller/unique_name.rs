//! [`UniqueName`]: the names of the controllers of this process.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names that are in use in this process.
static IN_USE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn in_use() -> MutexGuard<'static, BTreeSet<String>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that no other controller of the process has while this value exists. It keeps the metrics of two controllers apart.
#[derive(Debug)]
pub(crate) struct UniqueName(String);

impl UniqueName {
    /// Claims `name`, or if it is in use, `name` with a number.
    pub(crate) fn claim(requested: &str) -> Self {
        let mut names = in_use();
        let mut name = requested.to_owned();
        let mut number = 1;
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{requested}-{number}");
        }
        if number > 1 {
            tracing::warn!(controller = requested, name, "controller name is in use; numbered");
        }
        UniqueName(name)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UniqueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Drop for UniqueName {
    fn drop(&mut self) {
        in_use().remove(&self.0);
    }
}
