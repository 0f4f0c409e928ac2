//! [`StandaloneLimiter`]: a limiter for those who have no queue.

use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::expiring_map::ExpiringMap;
use crate::limiter::RateLimiter;

/// Counts the failures of keys and asks a limiter about them. It is used as client-go's rate limiters are, where there is no
/// queue to do the counting.
///
/// It may be shared between threads. The limiter is not asked under its lock.
///
/// A key that fails no more and of which nobody says that it [succeeded](Self::forget) is forgotten by itself: when it has
/// been idle for twice the longest wait of the limiter, and a minute at least. A key that was told to wait for longer than
/// that is remembered for twice its wait, or for two days if that is less. Each call looks at a few keys for this, so no call
/// takes long, and there are never many more keys than have been seen within that time.
///
/// ```
/// use std::time::{Duration, Instant};
/// use evenkeel_queue::compat::StandaloneLimiter;
/// use evenkeel_queue::limiter::default_item_limiter;
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
    /// The latest time that a call has told.
    latest: Option<Instant>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// For how long after the last one they are remembered.
    kept: Duration,
}

/// What is taken for the longest wait of a limiter that knows none: that of the default ones.
const LONGEST_BY_DEFAULT: Duration = Duration::from_secs(1000);
/// However short the waits are, the work between them may take its time.
const KEPT_AT_LEAST: Duration = Duration::from_secs(60);
/// However long the wait is that a limiter asks for, nobody sits through more than half of this.
const KEPT_FOR_A_WAIT_AT_MOST: Duration = Duration::from_secs(2 * 24 * 3600);

impl<K: Eq + Hash + Clone, L: RateLimiter<K>> StandaloneLimiter<K, L> {
    /// Counts for this limiter. No key has failed yet.
    pub fn new(limiter: L) -> Self {
        let idle = limiter.longest().unwrap_or(LONGEST_BY_DEFAULT).saturating_mul(2).max(KEPT_AT_LEAST);
        StandaloneLimiter { limiter, idle, state: Mutex::new(LimiterState { keys: ExpiringMap::new(), latest: None }) }
    }

    /// Forgets a key that has been idle for longer than this, in place of twice the limiter's longest wait.
    #[must_use]
    pub fn forget_after(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// `key` has failed. Answers how long it shall wait.
    pub fn when(&self, key: &K, now: Instant) -> Duration {
        let failures = self.state().count(key, now, self.idle);
        let wait = self.limiter.when(key, failures, now);
        let kept = wait.saturating_mul(2).min(KEPT_FOR_A_WAIT_AT_MOST);
        // Seldom: only a bucket asks for more than the longest wait that is known.
        if kept > self.idle
            && let Some(failures) = self.state().keys.get_mut(key)
        {
            failures.kept = failures.kept.max(kept);
        }
        wait
    }

    /// `key` has succeeded: its next failure will be its first.
    pub fn forget(&self, key: &K) {
        self.state().keys.remove(key);
        self.limiter.forget(key);
    }

    /// How often `key` has failed since it was last forgotten. Time is what the latest call of [`when`](Self::when) said.
    pub fn num_requeues(&self, key: &K) -> u32 {
        let state = self.state();
        let failures = state.keys.get(key).filter(|failures| state.latest.is_none_or(|now| !failures.are_over(now)));
        failures.map_or(0, |failures| failures.count)
    }

    /// How many keys are remembered at the moment, with those that have been idle for too long and are yet to be removed.
    pub fn len(&self) -> usize {
        self.state().keys.len()
    }

    /// Whether no key is remembered.
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
    /// One more failure of the key.
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
