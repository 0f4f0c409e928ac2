//! [`KeyedBackoff`]: waits by key that grow with every event, for those who ask whether it is time yet.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::expiring_map::ExpiringMap;

/// How long each key is to be left alone: the first event of a key sets an initial time, every further event doubles it up
/// to a maximum. client-go's `flowcontrol.Backoff`.
///
/// Unlike a [`RateLimiter`](crate::RateLimiter) it does not say when to come back; its owner asks, as often as it likes,
/// whether a key is still backing off. It neither reads a clock nor rolls dice: time and a random number are passed in. The
/// owner locks it where several threads need it.
///
/// A key of which nothing is heard for more than twice the maximum has expired (unless [another rule](Self::expires_when) is
/// given): its next event counts as its first. Until it expires, its time stays where it was.
///
/// Expired keys are removed by [`gc`](Self::gc), all at once, and also a few with each call of [`next`](Self::next). So they
/// may be gone at any time after they have expired, and nothing piles up even if nobody calls `gc`.
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
    /// The time that the first event of a key sets, and the longest one. No time is longer than `max`, the first one
    /// neither.
    pub fn new(initial: Duration, max: Duration) -> Self {
        KeyedBackoff { initial, max, jitter: 0.0, expired: None, keys: ExpiringMap::new() }
    }

    /// Adds to each time a random part of the one before it (of the first: of itself), at most `factor` times as long.
    /// Without this, or if it is not a positive number, nothing is added.
    #[must_use]
    pub fn jitter(mut self, factor: f64) -> Self {
        self.jitter = if factor.is_finite() { factor.max(0.0) } else { 0.0 };
        self
    }

    /// When a key has expired: a function of the time since its last update and of the maximum. In place of the rule that
    /// the former is more than twice the latter.
    ///
    /// Keys that never expire are never removed; who gives such a rule has to [`reset`](Self::reset) them.
    #[must_use]
    pub fn expires_when(mut self, rule: impl Fn(Duration, Duration) -> bool + Send + Sync + 'static) -> Self {
        self.expired = Some(Box::new(rule));
        self
    }

    /// How long `key` is left alone at a time; zero if it is not known.
    pub fn get(&self, key: &K) -> Duration {
        self.keys.get(key).map_or(Duration::ZERO, |backoff| backoff.time)
    }

    /// Something happened to `key` at the time `event`, of which we hear `now`: it is left alone for longer. Answers for
    /// how long.
    ///
    /// Whether it had expired is judged by `event`; its time starts `now`. `random` is from 0 to 1.
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
        // Not before: this key may have expired by now, but not at the time of its event.
        self.keys.sweep(|backoff| rule.has_expired(backoff, now));
        time
    }

    /// Whether `key` is `now` still to be left alone because of something at the time `event`. False if it is not known, or
    /// had expired by then.
    pub fn is_in_backoff_since(&self, key: &K, event: Instant, now: Instant) -> bool {
        self.at(key, event).is_some_and(|backoff| now.saturating_duration_since(event) < backoff.time)
    }

    /// Whether `key` is at the time `event` still to be left alone because of its last [`next`](Self::next). False if it is
    /// not known, or has expired.
    pub fn is_in_backoff_since_update(&self, key: &K, event: Instant) -> bool {
        self.at(key, event).is_some_and(|backoff| event.saturating_duration_since(backoff.updated) < backoff.time)
    }

    /// Forgets `key`: its next event will be its first. client-go's `Reset` and `DeleteEntry`.
    pub fn reset(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Removes all keys that have expired by `now`.
    pub fn gc(&mut self, now: Instant) {
        let rule = Rule { max: self.max, expired: self.expired.as_deref() };
        self.keys.sweep_all(|backoff| rule.has_expired(backoff, now));
    }

    /// How many keys are known, with those that have expired and are yet to be removed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known of the key, unless it has expired at that time.
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
