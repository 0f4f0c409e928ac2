//! [`KeyedBackoff`].

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::expiring_map::ExpiringMap;

/// A backoff per key: the first event of a key sets an initial backoff, each further event doubles it up to a maximum.
/// client-go's `flowcontrol.Backoff`.
///
/// Unlike a [`RateLimiter`](crate::RateLimiter) it schedules nothing: the owner polls whether a key is in backoff. Time and random
/// numbers are arguments. Use from several threads needs a lock.
///
/// A key expires twice the maximum after its last event (unless [another rule](Self::expires_when) is given): its next event
/// counts as its first. Until then its backoff does not decrease.
///
/// [`gc`](Self::gc) removes all expired keys, and each call of [`next`](Self::next) removes a few. Memory is bounded even
/// without calls of `gc`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use evenkeel_queue::compat::KeyedBackoff;
///
/// let second = Duration::from_secs(1);
/// let mut pulls = KeyedBackoff::new(10 * second, 300 * second);
/// let (image, failed) = ("registry/web:1", Instant::now());
/// pulls.next(&image, failed, failed, 0.0);
/// assert!(pulls.is_in_backoff_since_update(&image, failed + 9 * second));
/// assert!(!pulls.is_in_backoff_since_update(&image, failed + 10 * second));
/// ```
pub struct KeyedBackoff<K> {
    initial: Duration,
    max: Duration,
    jitter: f64,
    expired: Option<Box<Expired>>,
    keys: ExpiringMap<K, KeyBackoff>,
}

type Expired = dyn Fn(Duration, Duration) -> bool + Send + Sync;

struct KeyBackoff {
    time: Duration,
    updated: Instant,
}

impl<K: Eq + Hash + Clone> KeyedBackoff<K> {
    /// Returns an empty set of backoffs that start at `initial` and never exceed `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        KeyedBackoff { initial, max, jitter: 0.0, expired: None, keys: ExpiringMap::new() }
    }

    /// Adds jitter: a random fraction, at most `factor`, of the previous backoff (of itself for the first). Default: none. A factor
    /// that is not a positive number counts as none.
    #[must_use]
    pub fn jitter(mut self, factor: f64) -> Self {
        self.jitter = if factor.is_finite() { factor.max(0.0) } else { 0.0 };
        self
    }

    /// Sets the rule by which a key expires: a function of the time since its last event and of the maximum. Default: the former
    /// is more than twice the latter.
    ///
    /// Keys that never expire must be removed by [`reset`](Self::reset).
    #[must_use]
    pub fn expires_when(mut self, rule: impl Fn(Duration, Duration) -> bool + Send + Sync + 'static) -> Self {
        self.expired = Some(Box::new(rule));
        self
    }

    /// Returns the backoff of `key`; zero if it has none.
    pub fn get(&self, key: &K) -> Duration {
        self.keys.get(key).map_or(Duration::ZERO, |backoff| backoff.time)
    }

    /// Records an event of `key` and returns its backoff from now on.
    ///
    /// Expiry is judged at `event`; the backoff starts `now`. `random` is from 0 to 1.
    pub fn next(&mut self, key: &K, event: Instant, now: Instant, random: f64) -> Duration {
        let rule = Rule { max: self.max, expired: self.expired.as_deref() };
        let share = self.jitter * random.clamp(0.0, 1.0);
        let first = self.initial.saturating_add(part(self.initial, share)).min(self.max);
        let mut known = true;
        let backoff = self.keys.get_or_insert(key, || {
            known = false;
            KeyBackoff { time: first, updated: now }
        });
        if known {
            backoff.time = if rule.has_expired(backoff, event) {
                first
            } else {
                backoff.time.saturating_mul(2).saturating_add(part(backoff.time, share)).min(self.max)
            };
            backoff.updated = now;
        }
        let time = backoff.time;
        // Last: this key may have expired `now`, but not at its event.
        self.keys.sweep(|backoff| rule.has_expired(backoff, now));
        time
    }

    /// Returns whether `key` is `now` in the backoff that follows `event`. False if it has none, or expired before `event`.
    pub fn is_in_backoff_since(&self, key: &K, event: Instant, now: Instant) -> bool {
        self.at(key, event).is_some_and(|backoff| now.saturating_duration_since(event) < backoff.time)
    }

    /// Returns whether `key` is at `event` in the backoff of its last [`next`](Self::next). False if it has none, or has expired.
    pub fn is_in_backoff_since_update(&self, key: &K, event: Instant) -> bool {
        self.at(key, event).is_some_and(|backoff| event.saturating_duration_since(backoff.updated) < backoff.time)
    }

    /// Removes `key`: its next event counts as its first. client-go's `Reset` and `DeleteEntry`.
    pub fn reset(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Removes all keys that have expired by `now`.
    pub fn gc(&mut self, now: Instant) {
        let rule = Rule { max: self.max, expired: self.expired.as_deref() };
        self.keys.sweep_all(|backoff| rule.has_expired(backoff, now));
    }

    /// Returns the number of keys, including expired ones that are not removed yet.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the backoff of the key, unless it has expired at that time.
    fn at(&self, key: &K, time: Instant) -> Option<&KeyBackoff> {
        let rule = Rule { max: self.max, expired: self.expired.as_deref() };
        self.keys.get(key).filter(|backoff| !rule.has_expired(backoff, time))
    }
}

#[derive(Clone, Copy)]
struct Rule<'a> {
    max: Duration,
    expired: Option<&'a Expired>,
}

impl Rule<'_> {
    fn has_expired(&self, backoff: &KeyBackoff, time: Instant) -> bool {
        let idle = time.saturating_duration_since(backoff.updated);
        match self.expired {
            Some(rule) => rule(idle, self.max),
            None => idle > self.max.saturating_mul(2),
        }
    }
}

fn part(whole: Duration, share: f64) -> Duration {
    if share > 0.0 {
        Duration::try_from_secs_f64(whole.as_secs_f64() * share).unwrap_or(Duration::MAX)
    } else {
        Duration::ZERO
    }
}

impl<K> fmt::Debug for KeyedBackoff<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBackoff")
            .field("initial", &self.initial)
            .field("max", &self.max)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
