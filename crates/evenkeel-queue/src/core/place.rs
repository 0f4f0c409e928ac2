//! Where a key is left when a worker is done with it.

use std::time::Duration;

use super::Core;
use super::keys::{Flag, Slot};
use crate::Key;
use crate::observe::Place;

/// That a key comes back by itself when its worker is done.
#[derive(Clone, Copy)]
pub(crate) struct Returns {
    pub(crate) wait: Duration,
    /// Whether that is because it failed.
    pub(crate) is_back_off: bool,
}

impl<K: Key> Core<K> {
    /// Where a key that a worker has is going to be when the worker is done and has said this of its return, if nothing else
    /// happens.
    pub(crate) fn place(&self, slot: Slot, returns: Option<Returns>) -> Place {
        if !self.keys.holds(slot) {
            return Place::Out;
        }
        let entry = self.keys.entry(slot);
        let is_put_off = returns.is_some_and(|returns| returns.is_back_off)
            && self.again.get(&slot).is_some_and(|again| again.is_retry);
        let is_at_once = returns.is_some_and(|returns| returns.wait.is_zero());
        let still_waits = entry.has(Flag::Waiting) && (self.is_running() || self.is_flushing());
        if is_at_once || (entry.has(Flag::Dirty) && !is_put_off) {
            Place::Ready
        } else if returns.is_some() || still_waits {
            Place::Waiting
        } else {
            Place::Out
        }
    }
}
