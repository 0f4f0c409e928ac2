//! Requests that wait until the store reaches a revision.

use std::collections::BTreeMap;
use std::task::Waker;

/// The waiting requests by the revision that they wait for. A commit wakes only those whose revision is reached, so that
/// many waiting requests do not slow down writes.
#[derive(Debug, Default)]
pub(super) struct RevisionWaiters(BTreeMap<(u64, usize), Waker>);

impl RevisionWaiters {
    /// Registers a task, once per revision.
    pub(super) fn register(&mut self, revision: u64, waker: &Waker) {
        self.0.insert((revision, waker.data() as usize), waker.clone());
    }

    /// Removes and returns the tasks that wait for a revision up to this one.
    pub(super) fn take_reached(&mut self, revision: u64) -> Vec<Waker> {
        if self.0.first_key_value().is_none_or(|((first, _), _)| *first > revision) {
            return Vec::new();
        }
        let later = self.0.split_off(&(revision.saturating_add(1), 0));
        std::mem::replace(&mut self.0, later).into_values().collect()
    }

    /// Removes and returns all tasks.
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}
