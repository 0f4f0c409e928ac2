use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_full_bucket_gives_its_burst_and_then_its_rate() {
    let mut bucket = TokenBucket::per_second(10.0, 3).unwrap();
    let now = 7 * SECOND;
    assert_eq!([0; 3].map(|_| bucket.try_take(now)), [true; 3]);
    assert!(!bucket.try_take(now));
    assert!(!bucket.try_take(now + 100 * MS - Duration::from_nanos(1)));
    assert!(bucket.try_take(now + 100 * MS));
    assert_eq!([0; 4].map(|_| bucket.try_take(now + 60 * SECOND)), [true, true, true, false]);
}

#[test]
fn reservations_come_due_one_after_the_other() {
    let mut bucket = TokenBucket::per_second(10.0, 1).unwrap();
    assert_eq!([0; 4].map(|_| bucket.reserve(SECOND)), [Duration::ZERO, 100 * MS, 200 * MS, 300 * MS]);
    assert_eq!(bucket.reserve(SECOND + 350 * MS), 50 * MS);
}

#[test]
fn a_wait_takes_no_token() {
    let mut bucket = TokenBucket::per_second(2.0, 2).unwrap();
    assert_eq!(bucket.wait_for(SECOND, 2), Duration::ZERO);
    assert_eq!(bucket.wait_for(SECOND, 3), 500 * MS);
    assert!(bucket.try_take(SECOND) && bucket.try_take(SECOND));
    assert_eq!([1, 2].map(|tokens| bucket.wait_for(SECOND, tokens)), [500 * MS, SECOND]);
    assert_eq!(bucket.wait_for(SECOND, 1), 500 * MS);
}

#[test]
fn a_wait_that_has_passed_yields_the_token() {
    for rate in [0.3, 1.0 / 3.0, 0.7, 3.0, 7.0, 1e-3] {
        let mut bucket = TokenBucket::per_second(rate, 1).unwrap();
        let mut now = SECOND;
        for _ in 0..100 {
            now += bucket.wait_for(now, 1);
            assert!(bucket.try_take(now), "{rate}");
        }
    }
}

#[test]
fn an_interval_is_exact() {
    let mut bucket = TokenBucket::every(300 * SECOND, 1);
    for round in 0..1000 {
        assert!(bucket.try_take(300 * SECOND * round));
        assert!(!bucket.try_take(300 * SECOND * round + 299 * SECOND));
    }
    let mut always = TokenBucket::every(Duration::ZERO, 2);
    assert!((0..10).all(|_| always.try_take(SECOND)));
    assert!(!TokenBucket::every(Duration::ZERO, 0).try_take(SECOND));
}

#[test]
fn a_clock_that_is_set_back_adds_no_tokens() {
    let mut bucket = TokenBucket::per_second(1.0, 1).unwrap();
    assert!(bucket.try_take(10 * SECOND));
    assert!(!bucket.try_take(SECOND));
    assert!(!bucket.try_take(10 * SECOND + 999 * MS));
    assert!(bucket.try_take(11 * SECOND));
}

#[test]
fn rates_that_are_no_rates_are_rejected_and_an_empty_bucket_never_has_a_token() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(TokenBucket::per_second(rate, 1).is_none());
    }
    let mut empty = TokenBucket::per_second(1.0, 0).unwrap();
    assert!(!empty.try_take(1000 * SECOND));
    assert_eq!((empty.reserve(SECOND), empty.wait_for(SECOND, 1)), (Duration::MAX, Duration::MAX));
    let mut wide = TokenBucket::per_second(f64::MAX, u32::MAX).unwrap();
    assert!(wide.try_take(Duration::MAX) && wide.reserve(Duration::MAX).is_zero());
}
