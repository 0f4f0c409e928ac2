//! A clock with injectable jumps and skew (FLT-6).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::lock;
use crate::env::Env;

/// The server's environment: the real one, with a wall clock that jumps and clocks that run fast or slow.
pub(crate) struct Clock {
    inner: Arc<dyn Env>,
    /// Whether any fault was ever set; until then reads take no lock.
    touched: AtomicBool,
    error: Mutex<ClockError>,
}

#[derive(Default)]
struct ClockError {
    /// The offset of the wall clock.
    jump: SignedDuration,
    /// The skew of the clocks, in parts per million.
    skew: i32,
    /// The start of the current skew.
    since: Duration,
    /// The drift accumulated before the current skew.
    drift: SignedDuration,
}

/// Clocks run at half to one and a half times their speed, and never stop or run backwards.
const MAX_SKEW: i32 = 500_000;

impl Clock {
    pub(crate) fn new(inner: Arc<dyn Env>) -> Self {
        Clock { inner, touched: AtomicBool::new(false), error: Mutex::default() }
    }

    pub(super) fn jump(&self, by: SignedDuration) {
        let mut error = self.error();
        error.jump = error.jump.saturating_add(by);
        self.touched.store(true, Ordering::Release);
    }

    pub(super) fn skew(&self, millionths: i32) {
        let now = self.inner.monotonic();
        let mut error = self.error();
        error.drift = error.drift_at(now);
        error.since = now;
        error.skew = millionths.clamp(-MAX_SKEW, MAX_SKEW);
        self.touched.store(true, Ordering::Release);
    }

    fn error(&self) -> MutexGuard<'_, ClockError> {
        lock(&self.error)
    }
}

impl ClockError {
    fn drift_at(&self, now: Duration) -> SignedDuration {
        let passed = now.saturating_sub(self.since).as_nanos();
        let passed = i128::try_from(passed).unwrap_or(i128::MAX);
        let gained = passed.saturating_mul(i128::from(self.skew)) / 1_000_000;
        let gained = i64::try_from(gained).unwrap_or(if gained < 0 { i64::MIN } else { i64::MAX });
        self.drift.saturating_add(SignedDuration::from_nanos(gained))
    }
}

impl Env for Clock {
    fn wall(&self) -> Timestamp {
        let right = self.inner.wall();
        if !self.touched.load(Ordering::Acquire) {
            return right;
        }
        let error = self.error();
        let wrong_by = error.jump.saturating_add(error.drift_at(self.inner.monotonic()));
        right.saturating_add(wrong_by).unwrap_or(right)
    }

    fn monotonic(&self) -> Duration {
        let now = self.inner.monotonic();
        if !self.touched.load(Ordering::Acquire) {
            return now;
        }
        let drift = self.error().drift_at(now);
        let magnitude = drift.unsigned_abs();
        if drift.is_negative() { now.saturating_sub(magnitude) } else { now.saturating_add(magnitude) }
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
