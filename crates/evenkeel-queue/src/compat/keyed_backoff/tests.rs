#![expect(clippy::disallowed_methods, reason = "a test starts somewhere")]

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "key";

fn seconds(seconds: u32) -> Duration {
    SECOND * seconds
}

#[test]
fn fc_001_every_event_doubles_the_backoff_up_to_the_maximum() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(50));
    let mut now = Instant::now();
    for expected in [0, 1, 2, 4, 8, 16, 32, 50, 50, 50] {
        assert_eq!(backoff.get(&KEY), seconds(expected));
        now += SECOND;
        assert_eq!(backoff.next(&KEY, now, now, 0.5), backoff.get(&KEY));
    }
    assert_eq!(backoff.get(&"other"), Duration::ZERO);
    backoff.reset(&KEY);
    assert_eq!(backoff.get(&KEY), Duration::ZERO);
    assert_eq!(backoff.next(&KEY, now, now, 0.5), SECOND);
}

#[test]
fn fc_002_jitter_adds_a_fraction_of_the_previous_backoff() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(500)).jitter(0.1);
    let now = Instant::now();
    let time = |millis: u64| Duration::from_millis(millis);
    assert_eq!(backoff.next(&KEY, now, now, 0.5), time(1050));
    assert_eq!(backoff.next(&KEY, now, now, 0.0), time(2100));
    assert_eq!(backoff.next(&KEY, now, now, 1.0), time(4410));
    // An invalid random number is replaced with the nearest valid one.
    assert_eq!(backoff.next(&KEY, now, now, -7.0), time(8820));
    assert_eq!(backoff.next(&KEY, now, now, f64::NAN), time(17_640));
}

#[test]
fn fc_002_a_jitter_that_is_no_positive_number_is_none() {
    let now = Instant::now();
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut backoff = KeyedBackoff::new(SECOND, seconds(50)).jitter(factor);
        assert_eq!(backoff.next(&KEY, now, now, 0.9), SECOND);
        assert_eq!(backoff.next(&KEY, now, now, 0.9), seconds(2));
    }
}

#[test]
fn fc_003_no_backoff_exceeds_the_maximum_not_even_the_first() {
    let now = Instant::now();
    let mut backoff = KeyedBackoff::new(seconds(60), seconds(50));
    assert_eq!(backoff.next(&KEY, now, now, 0.0), seconds(50));
    let mut backoff = KeyedBackoff::new(seconds(40), seconds(50)).jitter(1.0);
    assert_eq!(backoff.next(&KEY, now, now, 0.9), seconds(50));
    let mut backoff = KeyedBackoff::new(Duration::MAX, Duration::MAX).jitter(f64::MAX);
    assert_eq!(backoff.next(&KEY, now, now, 1.0), Duration::MAX);
    assert_eq!(backoff.next(&KEY, now, now, 1.0), Duration::MAX);
}

#[test]
fn fc_004_a_key_is_reset_after_more_than_twice_the_maximum() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5));
    let start = Instant::now();
    for _ in 0..3 {
        backoff.next(&KEY, start, start, 0.0);
    }
    assert_eq!(backoff.get(&KEY), seconds(4));
    let just = start + seconds(10);
    assert_eq!(backoff.next(&KEY, just, just, 0.0), seconds(5));
    let later = just + seconds(10) + Duration::from_nanos(1);
    assert_eq!(backoff.next(&KEY, later, later, 0.0), SECOND);
}

#[test]
fn fc_004_expiry_counts_from_the_update_not_from_the_event() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5));
    let start = Instant::now();
    backoff.next(&KEY, start, start + seconds(20), 0.0);
    // It was updated after 20 seconds, so an event after 30 is in time, whenever it is reported.
    assert_eq!(backoff.next(&KEY, start + seconds(30), start + seconds(30), 0.0), seconds(2));
    assert_eq!(backoff.next(&KEY, start + seconds(31), start + seconds(90), 0.0), seconds(4));
}

#[test]
fn fc_004_a_custom_rule_can_expire_keys() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5)).expires_when(|idle, max| idle >= max * 4);
    let start = Instant::now();
    backoff.next(&KEY, start, start, 0.0);
    let nearly = start + seconds(19);
    assert_eq!(backoff.next(&KEY, nearly, nearly, 0.0), seconds(2));
    let after = nearly + seconds(20);
    assert_eq!(backoff.next(&KEY, after, after, 0.0), SECOND);
}

#[test]
fn fc_005_the_backoff_is_kept_until_the_key_expires() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5));
    let start = Instant::now();
    for _ in 0..4 {
        backoff.next(&KEY, start, start, 0.0);
    }
    assert_eq!(backoff.get(&KEY), seconds(5));
    let later = start + seconds(6);
    assert_eq!(backoff.next(&KEY, later, later, 0.0), seconds(5));
}

#[test]
fn fc_006_a_key_backs_off_after_an_event() {
    let mut backoff = KeyedBackoff::new(seconds(2), seconds(10));
    let start = Instant::now();
    assert!(!backoff.is_in_backoff_since(&KEY, start, start));
    backoff.next(&KEY, start, start, 0.0);
    assert!(backoff.is_in_backoff_since(&KEY, start, start + SECOND));
    assert!(!backoff.is_in_backoff_since(&KEY, start, start + seconds(2)));
    // It depends on the queried event, not on the recorded one.
    assert!(backoff.is_in_backoff_since(&KEY, start + SECOND, start + seconds(2)));
    assert!(backoff.is_in_backoff_since(&KEY, start + seconds(20), start + seconds(21)));
    assert!(!backoff.is_in_backoff_since(&KEY, start + seconds(21), start + seconds(21)));
}

#[test]
fn fc_006_a_key_backs_off_after_its_update() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(10));
    let start = Instant::now();
    let mut free = Vec::new();
    for tick in 0..=35 {
        let now = start + seconds(tick);
        if !backoff.is_in_backoff_since_update(&KEY, now) {
            free.push(tick);
            backoff.next(&KEY, now, now, 0.0);
        }
    }
    assert_eq!(free, [0, 1, 3, 7, 15, 25, 35]);
    let now = start + seconds(35 + 21);
    assert!(!backoff.is_in_backoff_since_update(&KEY, now));
    assert_eq!(backoff.next(&KEY, now, now, 0.0), SECOND);
    // An event from before the update is in the time after it, by definition.
    assert!(backoff.is_in_backoff_since_update(&KEY, start));
}

#[test]
fn fc_007_expired_keys_are_removed_by_gc() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5));
    let start = Instant::now();
    backoff.next(&"old", start, start, 0.0);
    backoff.next(&"new", start, start + SECOND, 0.0);
    backoff.gc(start + seconds(10));
    assert_eq!(backoff.len(), 2);
    backoff.gc(start + seconds(11));
    assert_eq!((backoff.len(), backoff.get(&"old"), backoff.get(&"new")), (1, Duration::ZERO, SECOND));
    backoff.reset(&"new");
    assert!(backoff.is_empty());
}

#[test]
fn fc_007_a_custom_rule_determines_what_is_removed() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(5)).expires_when(|idle, _| idle > SECOND);
    let start = Instant::now();
    backoff.next(&KEY, start, start, 0.0);
    backoff.gc(start + SECOND);
    assert_eq!(backoff.len(), 1);
    backoff.gc(start + seconds(2));
    assert_eq!(backoff.len(), 0);
}

#[test]
fn fc_007_keys_do_not_accumulate_without_a_gc_call() {
    let mut backoff = KeyedBackoff::new(SECOND, seconds(500));
    let start = Instant::now();
    for key in 0..20_000 {
        let now = start + SECOND * key;
        backoff.next(&key, now, now, 0.0);
        // Keys of the last 1000 seconds, and entries not yet swept.
        assert!(backoff.len() < 1600, "{} at {key}", backoff.len());
    }
}

proptest! {
    #[test]
    fn fc_002_the_next_backoff_is_the_double_plus_at_most_the_jitter(
        factor in 0.0..2.0_f64,
        randoms in proptest::collection::vec(0.0..1.0_f64, 1..40),
    ) {
        let max = seconds(3600);
        let mut backoff = KeyedBackoff::new(SECOND, max).jitter(factor);
        let now = Instant::now();
        // The first backoff is once the initial one, plus its jitter.
        let (mut last, mut least) = (SECOND, 1.0);
        for random in randoms {
            let time = backoff.next(&KEY, now, now, random);
            let rounding = Duration::from_micros(1);
            prop_assert!(time <= max);
            prop_assert!(time + rounding >= last.mul_f64(least).min(max));
            prop_assert!(time <= last.mul_f64(least + factor) + rounding);
            (last, least) = (time, 2.0);
        }
    }
}
