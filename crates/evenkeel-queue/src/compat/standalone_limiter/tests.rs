#![expect(clippy::disallowed_methods, reason = "a test starts somewhere")]

use std::thread;

use super::*;
use crate::compat::FastSlow;
use crate::compat::default_item_limiter;
use crate::limiter::{Bucket, Exponential, MaxOf};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn rl_001_rl_002_failures_are_counted_per_key_until_forgotten() {
    let limiter = StandaloneLimiter::new(Exponential::new(MS, SECOND));
    let now = Instant::now();
    for wait in [1, 2, 4, 8, 16] {
        assert_eq!(limiter.when(&"one", now), wait * MS);
    }
    assert_eq!(limiter.when(&"two", now), MS);
    assert_eq!((limiter.num_requeues(&"one"), limiter.num_requeues(&"two"), limiter.num_requeues(&"three")), (5, 1, 0));
    assert_eq!(limiter.len(), 2);
    limiter.forget(&"one");
    limiter.forget(&"three");
    assert_eq!((limiter.num_requeues(&"one"), limiter.num_requeues(&"two")), (0, 1));
    assert_eq!(limiter.when(&"one", now), MS);
}

#[test]
fn rl_005_rl_007_failures_are_counted_for_any_limiter() {
    let fast_slow = StandaloneLimiter::new(FastSlow::new(5 * MS, 10 * SECOND, 3));
    let bucket = StandaloneLimiter::new(Bucket::new(1.0, 1).unwrap());
    let now = Instant::now();
    for _ in 0..5 {
        fast_slow.when(&"one", now);
        bucket.when(&"one", now);
    }
    assert_eq!((fast_slow.num_requeues(&"one"), bucket.num_requeues(&"one")), (5, 5));
    fast_slow.forget(&"one");
    assert_eq!((fast_slow.num_requeues(&"one"), fast_slow.when(&"one", now)), (0, 5 * MS));
}

#[test]
fn rl_001_threads_share_the_count() {
    let limiter = StandaloneLimiter::new(default_item_limiter());
    let now = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..1000 {
                    limiter.when(&(key % 10), now);
                }
            });
        }
    });
    assert!((0..10).all(|key| limiter.num_requeues(&key) == 400));
    assert!(!limiter.is_empty());
}

#[test]
fn rq_005_a_key_idle_for_twice_the_longest_wait_is_reset() {
    let limiter = StandaloneLimiter::new(default_item_limiter());
    let start = Instant::now();
    limiter.when(&"one", start);
    limiter.when(&"one", start);
    assert_eq!(limiter.when(&"one", start + 2000 * SECOND), 4 * MS);
    assert_eq!(limiter.num_requeues(&"one"), 3);
    limiter.when(&"other", start + 4000 * SECOND + MS);
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one", start + 4000 * SECOND + MS), MS);
}

#[test]
fn rq_005_an_expired_key_is_reset_even_if_it_was_not_removed() {
    let limiter = StandaloneLimiter::new(default_item_limiter());
    let start = Instant::now();
    (0..1000).for_each(|key| {
        limiter.when(&key, start);
    });
    // No call sweeps more than a few of the thousand.
    let later = start + 2001 * SECOND;
    assert!((0..10).all(|key| limiter.when(&key, later) == MS));
    assert!(limiter.len() > 900);
    assert!((0..1000).all(|key| limiter.num_requeues(&key) == u32::from(key < 10)));
}

#[test]
fn rq_005_keys_that_are_never_forgotten_do_not_accumulate() {
    let limiter = StandaloneLimiter::new(default_item_limiter());
    let start = Instant::now();
    for key in 0..50_000 {
        limiter.when(&key, start + SECOND * key);
        // Keys of the last 2000 seconds, and entries not yet swept.
        assert!(limiter.len() < 3200, "{} at {key}", limiter.len());
    }
}

#[test]
fn rq_005_failures_are_kept_beyond_the_wait() {
    let start = Instant::now();
    // The bucket waits three hours, more than the longest wait of the other limiter.
    let limiter = StandaloneLimiter::new(
        MaxOf::new().and(Exponential::new(MS, SECOND)).and(Bucket::new(1.0 / 3600.0, 1).unwrap()),
    );
    for _ in 0..3 {
        limiter.when(&"other", start);
    }
    let wait = limiter.when(&"one", start);
    assert!((3 * HOUR..3 * HOUR + SECOND).contains(&wait), "{wait:?}");
    limiter.when(&"two", start + 6 * HOUR);
    assert_eq!(limiter.num_requeues(&"one"), 1);
    limiter.when(&"two", start + 6 * HOUR + 2 * SECOND);
    assert_eq!(limiter.num_requeues(&"one"), 0);
}

#[test]
fn rq_005_an_infinite_wait_does_not_keep_failures_forever() {
    let limiter = StandaloneLimiter::new(Bucket::new(1.0, 0).unwrap());
    let start = Instant::now();
    assert_eq!(limiter.when(&"one", start), Duration::MAX);
    limiter.when(&"two", start + 49 * HOUR);
    assert_eq!(limiter.num_requeues(&"one"), 0);
}

#[test]
fn rq_005_the_retention_of_failures_is_configurable() {
    let start = Instant::now();
    let after = |limiter: &StandaloneLimiter<&'static str, Exponential>, idle: Duration| {
        limiter.forget(&"one");
        limiter.when(&"one", start);
        limiter.when(&"one", start + idle);
        limiter.num_requeues(&"one")
    };
    // A new one for each case, because its time never decreases.
    let limiter = || StandaloneLimiter::new(Exponential::new(MS, 10 * MS));
    assert_eq!(after(&limiter(), 60 * SECOND), 2);
    assert_eq!(after(&limiter(), 61 * SECOND), 1);
    assert_eq!(after(&limiter().forget_after(HOUR), HOUR), 2);
    assert_eq!(after(&limiter().forget_after(SECOND), 2 * SECOND), 1);
}
