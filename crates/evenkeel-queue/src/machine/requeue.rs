//! The state of a key after its run.

use std::time::Duration;

use super::QueueMachine;
use super::keys::{Flag, Slot};
use crate::Key;
use crate::observer::KeyState;

/// The return of a key after its run.
#[derive(Clone, Copy)]
pub(crate) struct Requeue {
    pub(crate) wait: Duration,
    /// Whether the wait is a backoff.
    pub(crate) is_backoff: bool,
}

impl<K: Key> QueueMachine<K> {
    /// Returns the state that a key in flight will have after a finish with this return, unless it is added meanwhile.
    pub(crate) fn state_after_finish(&self, slot: Slot, requeue: Option<Requeue>) -> KeyState {
        if !self.keys.holds(slot) {
            return KeyState::Absent;
        }
        let entry = self.keys.entry(slot);
        let is_put_off = requeue.is_some_and(|requeue| requeue.is_backoff)
            && self.again.get(&slot).is_some_and(|again| again.is_retry);
        let is_at_once = requeue.is_some_and(|requeue| requeue.wait.is_zero());
        let still_waits = entry.has(Flag::Waiting) && (self.is_running() || self.is_flushing());
        if is_at_once || (entry.has(Flag::Dirty) && !is_put_off) {
            KeyState::Ready
        } else if requeue.is_some() || still_waits {
            KeyState::Delayed
        } else {
            KeyState::Absent
        }
    }
}
