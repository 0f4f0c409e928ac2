//! [`Tracker`]: tracks unfinished work.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Hands out numbered [holds](Hold) and knows when all holds before a mark are released.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    state: Mutex<TrackerState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct TrackerState {
    next: u64,
    held: BTreeSet<u64>,
}

/// Marks work as unfinished until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    tracker: Arc<Tracker>,
    number: u64,
}

impl Tracker {
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.held.insert(number);
        Hold { tracker: Arc::clone(self), number }
    }

    /// Returns the number of the next hold: all earlier holds have a smaller one.
    pub(crate) fn mark(&self) -> u64 {
        self.state().next
    }

    /// Returns how many holds before the mark are left.
    pub(crate) fn held_before(&self, mark: u64) -> usize {
        self.state().held.range(..mark).count()
    }

    /// Waits until the holds before the mark are released.
    pub(crate) async fn released(&self, mark: u64) {
        loop {
            let changed = self.changed.notified();
            if self.state().held.first().is_none_or(|first| *first >= mark) {
                return;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, TrackerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.tracker.state().held.remove(&self.number);
        self.tracker.changed.notify_waiters();
    }
}
