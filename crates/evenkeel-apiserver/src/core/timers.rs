//! One timer wheel for all watches: buckets of a second, turned by the server's tick.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::store::Sleeper;

/// Sleepers by the second in which they want to be woken.
#[derive(Debug, Default)]
pub(super) struct Timers {
    next: AtomicU64,
    due: Mutex<BTreeMap<(u64, u64), Arc<Sleeper>>>,
}

/// A sleeper's place on the wheel; leaving it is a matter of dropping this.
#[derive(Debug)]
pub(super) struct Timer {
    wheel: Arc<Timers>,
    key: (u64, u64),
}

impl Timer {
    /// Wakes `sleeper` at the first tick at or after `at`.
    pub(super) fn set(wheel: &Arc<Timers>, at: Duration, sleeper: &Arc<Sleeper>) -> Self {
        let second = at.as_secs() + u64::from(at.subsec_nanos() > 0);
        let key = (second, wheel.next.fetch_add(1, Ordering::Relaxed));
        wheel.due.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(sleeper));
        Timer { wheel: Arc::clone(wheel), key }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.wheel.due.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl Timers {
    /// Wakes everyone whose time has come.
    pub(super) fn turn(&self, now: Duration) {
        let due = {
            let mut wheel = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let later = wheel.split_off(&(now.as_secs() + 1, 0));
            std::mem::replace(&mut *wheel, later)
        };
        due.into_values().for_each(|sleeper| sleeper.wake());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Alarm(AtomicUsize);

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn sleeper() -> (Arc<Alarm>, Arc<Sleeper>) {
        let (alarm, sleeper) = (Arc::new(Alarm::default()), Arc::new(Sleeper::default()));
        sleeper.prepare(&Waker::from(Arc::clone(&alarm)));
        (alarm, sleeper)
    }

    #[test]
    fn sto_21_one_wheel_wakes_whoever_is_due() {
        let wheel = Arc::new(Timers::default());
        let times = [Duration::from_secs(1), Duration::from_millis(1500), Duration::from_secs(2), Duration::MAX / 2];
        let sleepers: Vec<_> = times.map(|_| sleeper()).into();
        let timers: Vec<_> = times.iter().zip(&sleepers).map(|(at, (_, it))| Timer::set(&wheel, *at, it)).collect();
        let woken = || sleepers.iter().map(|(alarm, _)| alarm.0.load(Ordering::SeqCst)).collect::<Vec<_>>();
        wheel.turn(Duration::from_millis(999));
        assert_eq!(woken(), [0, 0, 0, 0]);
        wheel.turn(Duration::from_millis(1001));
        assert_eq!(woken(), [1, 0, 0, 0], "no one before their time");
        wheel.turn(Duration::from_secs(2));
        wheel.turn(Duration::from_secs(3));
        assert_eq!(woken(), [1, 1, 1, 0], "and everyone once");
        drop(timers);
        assert!(wheel.due.lock().unwrap().is_empty(), "who leaves is forgotten");
    }
}
