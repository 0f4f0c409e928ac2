#![expect(clippy::disallowed_methods, reason = "a test starts somewhere")]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn bucket(rate: f64, burst: u32) -> Bucket {
    Bucket::new(rate, burst).unwrap()
}

#[test]
fn rl_006_wqu_014_a_burst_passes_and_later_keys_wait() {
    let bucket = bucket(10.0, 3);
    let now = Instant::now();
    let waits: Vec<_> = (0..6).map(|_| bucket.when("any", 1, now)).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200, 300].map(|wait| wait * MS));
}

#[test]
fn rl_006_time_fills_the_bucket_but_no_further_than_full() {
    let bucket = bucket(10.0, 3);
    let start = Instant::now();
    let at = |after: Duration| bucket.when("any", 1, start + after);
    for _ in 0..5 {
        at(Duration::ZERO);
    }
    // One and a half of the two reserved tokens have been refilled.
    assert_eq!(at(150 * MS), 150 * MS);
    assert_eq!(at(150 * MS), 250 * MS);
    let waits: Vec<_> = (0..5).map(|_| at(3600 * SECOND)).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200].map(|wait| wait * MS));
}

#[test]
fn rl_006_a_wait_is_never_too_short_and_errors_do_not_add_up() {
    let start = Instant::now();
    let thirds = bucket(3.0, 1);
    let waits: Vec<_> = (0..7).map(|_| thirds.when("any", 1, start)).collect();
    let expected = [0, 333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334, 1_666_666_667, 2_000_000_000];
    assert_eq!(waits, expected.map(Duration::from_nanos));

    // A token takes a little longer than a second; a call every two seconds always gets one.
    let odd = bucket(1.0 / 1.031_425, 1);
    for step in 0..60 {
        assert_eq!(odd.when("any", 1, start + 2 * SECOND * step), Duration::ZERO);
    }

    // A hundred thousand calls between two tokens do not change their number.
    let busy = bucket(1000.0, 1);
    let mut now = start;
    for _ in 0..100_000 {
        busy.when("any", 1, now);
        now += Duration::from_nanos(10);
    }
    assert_eq!(busy.when("any", 1, start + MS), Duration::from_millis(100_000 - 1));
}

#[test]
fn rl_007_the_bucket_ignores_keys_and_failures() {
    let bucket = bucket(1.0, 1);
    let now = Instant::now();
    assert_eq!(bucket.when("one", 1, now), Duration::ZERO);
    RateLimiter::<str>::forget(&bucket, "one");
    assert_eq!(bucket.when("two", 77, now), SECOND);
    assert_eq!(RateLimiter::<str>::longest(&bucket), None);
}

#[test]
fn rl_007_a_bucket_of_size_zero_never_grants() {
    let bucket = bucket(10.0, 0);
    let now = Instant::now();
    assert_eq!(bucket.when("any", 1, now), Duration::MAX);
    assert_eq!(bucket.when("any", 1, now + 3600 * SECOND), Duration::MAX);
}

#[test]
fn rl_007_a_clock_set_back_adds_no_tokens() {
    let bucket = bucket(1.0, 2);
    let start = Instant::now() + 3600 * SECOND;
    let at = |after: Duration| bucket.when("any", 1, start + after);
    assert_eq!(at(10 * SECOND), Duration::ZERO);
    assert_eq!(at(Duration::ZERO), Duration::ZERO);
    assert_eq!(at(10 * SECOND), SECOND);
    assert_eq!(at(Duration::ZERO), 2 * SECOND);
    assert_eq!(at(10 * SECOND), 3 * SECOND);
}

#[test]
fn rl_006_a_rate_is_a_positive_number() {
    for rate in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let Err(BucketError::Rate { rate: refused }) = Bucket::new(rate, 1) else { panic!("{rate} was taken") };
        assert!(refused == rate || refused.is_nan());
    }
    let error = Bucket::new(0.0, 1).unwrap_err();
    assert!(error.to_string().contains("not 0"), "{error}");
}

#[test]
fn rl_006_extreme_rates_and_bursts_are_safe() {
    let now = Instant::now();
    for rate in [f64::MIN_POSITIVE, 1e-20, 1.0, 1e12, f64::MAX] {
        for burst in [1, u32::MAX] {
            let bucket = bucket(rate, burst);
            assert_eq!(bucket.when("any", 1, now), Duration::ZERO);
            let second = bucket.when("any", 1, now);
            assert_eq!(second.is_zero(), burst > 1, "{rate} {burst}: {second:?}");
        }
    }
    let slow = bucket(f64::MIN_POSITIVE, 1);
    let waits: Vec<_> = (0..100).map(|_| slow.when("any", 1, now)).collect();
    assert!(waits.is_sorted() && waits[99] > 1_000_000_000 * SECOND);
}

/// Returns the due times of calls at these times, which may decrease, in the order of the calls.
fn due(bucket: &Bucket, steps: &[i64]) -> Vec<Duration> {
    let start = Instant::now();
    let (mut now, mut latest) = (0_i64, 0_i64);
    let call = |step: &i64| {
        now = (now + step).max(0);
        latest = latest.max(now);
        let wait = bucket.when("any", 1, start + Duration::from_nanos(now as u64));
        Duration::from_nanos(latest as u64) + wait
    };
    steps.iter().map(call).collect()
}

proptest! {
    #[test]
    fn rl_006_no_stretch_of_time_has_more_than_a_burst_and_the_rate(
        rate in 1..2000_u32,
        burst in 1..20_u32,
        steps in vec(prop_oneof![Just(0), 0..100_000_000_i64, 0..5_000_000_000_i64, -1_000_000_000..0_i64], 1..150),
    ) {
        let due = due(&bucket(rate.into(), burst), &steps);
        prop_assert!(due.is_sorted());
        for first in 0..due.len() {
            for last in first..due.len() {
                let tokens = (last - first + 1) as u128;
                // A nanosecond more, because waits are rounded up to one.
                let made = u128::from(rate) * ((due[last] - due[first]).as_nanos() + 1);
                prop_assert!(tokens * 1_000_000_000 <= u128::from(burst) * 1_000_000_000 + made);
            }
        }
    }

    #[test]
    fn rl_006_no_available_token_is_withheld(
        rate in 1..2000_u32,
        burst in 1..20_u32,
        steps in vec(prop_oneof![Just(0), 0..100_000_000_i64, 0..5_000_000_000_i64], 1..150),
    ) {
        // In thousand-millionths of a token, everything is a whole number.
        const WHOLE: i128 = 1_000_000_000;
        let due = due(&bucket(rate.into(), burst), &steps);
        let (mut tokens, mut now) = (i128::from(burst) * WHOLE, 0_i128);
        for (step, due) in steps.iter().zip(due) {
            tokens = (tokens + i128::from(*step) * i128::from(rate)).min(i128::from(burst) * WHOLE) - WHOLE;
            now += i128::from(*step);
            let rate = i128::from(rate);
            let wait = ((-tokens).max(0) + rate - 1) / rate;
            prop_assert_eq!(due.as_nanos() as i128, now + wait);
        }
    }
}
