//! [`StandaloneLimiter`].

use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::expiring_map::ExpiringMap;
use crate::limiter::RateLimiter;

/// A rate limiter that counts failures itself, as client-go's limiters do, for use without a queue.
///
/// It can be shared between threads. The inner limiter is called without the lock.
///
/// A key that neither fails nor [succeeds](Self::forget) expires after twice the longest wait of the limiter, and at least after a
/// minute. A key with a longer wait is kept for twice that wait, at most two days. Each call visits a few keys for this, so calls
/// are short and memory is bounded by the keys of that period.
///
/// ```
/// use std::time::{Duration, Instant};
/// use evenkeel_queue::compat::StandaloneLimiter;
/// use evenkeel_queue::compat::default_item_limiter;
///
/// let limiter = StandaloneLimiter::new(default_item_limiter());
/// let key = "default/web-0".to_owned();
/// let now = Instant::now();
/// assert_eq!(limiter.when(&key, now), Duration::from_millis(1));
/// assert_eq!(limiter.when(&key, now), Duration::from_millis(2));
/// assert_eq!(limiter.num_requeues(&key), 2);
/// limiter.forget(&key);
/// assert_eq!(limiter.when(&key, now), Duration::from_millis(1));
/// ```
pub struct StandaloneLimiter<K, L> {
    limiter: L,
    idle: Duration,
    state: Mutex<LimiterState<K>>,
}

struct LimiterState<K> {
    keys: ExpiringMap<K, Failures>,
    /// The latest time passed in.
    latest: Option<Instant>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// How long they are kept after the last one.
    kept: Duration,
}

/// The assumed longest wait of a limiter without one: that of the default limiters.
const LONGEST_BY_DEFAULT: Duration = Duration::from_secs(1000);
/// The minimum, since runs between short waits may be long.
const KEPT_AT_LEAST: Duration = Duration::from_secs(60);
/// The maximum for a key with a very long wait.
const KEPT_FOR_A_WAIT_AT_MOST: Duration = Duration::from_secs(2 * 24 * 3600);

impl<K: Eq + Hash + Clone, L: RateLimiter<K>> StandaloneLimiter<K, L> {
    /// Returns a limiter without failures.
    pub fn new(limiter: L) -> Self {
        let idle = limiter.longest().unwrap_or(LONGEST_BY_DEFAULT).saturating_mul(2).max(KEPT_AT_LEAST);
        StandaloneLimiter { limiter, idle, state: Mutex::new(LimiterState { keys: ExpiringMap::new(), latest: None }) }
    }

    /// Sets how long an idle key is kept. Default: twice the longest wait of the limiter.
    #[must_use]
    pub fn forget_after(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Counts a failure of `key` and returns its wait.
    pub fn when(&self, key: &K, now: Instant) -> Duration {
        let failures = self.state().count(key, now, self.idle);
        let wait = self.limiter.when(key, failures, now);
        let kept = wait.saturating_mul(2).min(KEPT_FOR_A_WAIT_AT_MOST);
        // Rare: only a bucket exceeds the known longest wait.
        if kept > self.idle
            && let Some(failures) = self.state().keys.get_mut(key)
        {
            failures.kept = failures.kept.max(kept);
        }
        wait
    }

    /// Clears the failures of `key`.
    pub fn forget(&self, key: &K) {
        self.state().keys.remove(key);
        self.limiter.forget(key);
    }

    /// Returns the failures of `key`, at the time of the latest call of [`when`](Self::when).
    pub fn num_requeues(&self, key: &K) -> u32 {
        let state = self.state();
        let failures = state.keys.get(key).filter(|failures| state.latest.is_none_or(|now| !failures.are_over(now)));
        failures.map_or(0, |failures| failures.count)
    }

    /// Returns the number of keys, including expired ones that are not removed yet.
    pub fn len(&self) -> usize {
        self.state().keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, L> StandaloneLimiter<K, L> {
    fn state(&self) -> MutexGuard<'_, LimiterState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> LimiterState<K> {
    /// Counts a failure of the key.
    fn count(&mut self, key: &K, now: Instant, kept: Duration) -> u32 {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        self.keys.sweep(|failures| failures.are_over(now));
        let failures = self.keys.get_or_insert(key, || Failures { count: 0, last: now, kept });
        let before = if failures.are_over(now) { 0 } else { failures.count };
        *failures = Failures { count: before.saturating_add(1), last: now, kept };
        failures.count
    }
}

impl Failures {
    fn are_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) > self.kept
    }
}

impl<K, L: fmt::Debug> fmt::Debug for StandaloneLimiter<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandaloneLimiter")
            .field("limiter", &self.limiter)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
