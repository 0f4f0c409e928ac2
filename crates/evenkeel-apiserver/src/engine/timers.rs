//! One timer wheel for all watches, with one bucket per second. The tick of the server advances it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::store::WatchWaker;

/// The watches by the second in which they must be woken.
#[derive(Debug, Default)]
pub(crate) struct TimerWheel {
    next: AtomicU64,
    due: Mutex<BTreeMap<(u64, u64), Arc<WatchWaker>>>,
}

/// A timer on the wheel. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Timer {
    wheel: Arc<TimerWheel>,
    key: (u64, u64),
}

impl Timer {
    /// Wakes `watch_waker` at the first tick at or after `at`.
    pub(crate) fn set(wheel: &Arc<TimerWheel>, at: Duration, watch_waker: &Arc<WatchWaker>) -> Self {
        let second = at.as_secs() + u64::from(at.subsec_nanos() > 0);
        let key = (second, wheel.next.fetch_add(1, Ordering::Relaxed));
        wheel.due.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(watch_waker));
        Timer { wheel: Arc::clone(wheel), key }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.wheel.due.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl TimerWheel {
    /// Wakes the watches that are due.
    pub(crate) fn turn(&self, now: Duration) {
        let due = {
            let mut wheel = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let later = wheel.split_off(&(now.as_secs() + 1, 0));
            std::mem::replace(&mut *wheel, later)
        };
        due.into_values().for_each(|watch_waker| watch_waker.wake());
    }
}

#[cfg(test)]
mod tests;
