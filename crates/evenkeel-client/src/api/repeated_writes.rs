//! [`RepeatedWrites`]: detects callers that make the same change again and again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use evenkeel_core::{ObjectKey, ResourceInfo};
use serde_json::Value;

use super::difference::first_path;

/// How many equal changes in a row are reported.
const REPORTED: u8 = 3;
/// The number of objects that are remembered. All are forgotten when it is exceeded.
const MAX_OBJECTS: usize = 4096;

/// The last change of each object by `create_or_update` and `create_or_patch`.
#[derive(Debug, Default)]
pub(crate) struct RepeatedWrites(Mutex<HashMap<u64, LastChange>>);

#[derive(Clone, Copy, Debug)]
struct LastChange {
    difference: u64,
    count: u8,
}

impl RepeatedWrites {
    /// Records a change that was written, or that there was none. Logs a warning at the third equal change in a row: the
    /// server or another client reverts it.
    pub(super) fn record(&self, info: &ResourceInfo, key: &ObjectKey, difference: Option<&Value>) {
        let Some(difference) = difference else {
            self.changes().remove(&hash(&(info, key)));
            return;
        };
        if self.count(hash(&(info, key)), hash(&difference.to_string())) == REPORTED {
            tracing::warn!(
                kind = info.kind(),
                object = %key,
                path = first_path(difference),
                "the same change was written three times in a row; the server or another client reverts it",
            );
        }
    }

    /// Returns how many equal changes in a row there were.
    fn count(&self, subject: u64, difference: u64) -> u8 {
        let mut changes = self.changes();
        if changes.len() >= MAX_OBJECTS && !changes.contains_key(&subject) {
            changes.clear();
        }
        let last = changes.entry(subject).or_insert(LastChange { difference, count: 0 });
        let count = if last.difference == difference { last.count.saturating_add(1) } else { 1 };
        *last = LastChange { difference, count };
        count
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, HashMap<u64, LastChange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
