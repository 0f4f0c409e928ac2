use proptest::prelude::*;

use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

proptest! {
    #[test]
    fn wa_001_jitter_only_adds(d in 0u64..1 << 40, f in -1.0..10.0f64, random in 0.0..1.0f64) {
        let (duration, jittered) = (Duration::from_nanos(d), jitter(Duration::from_nanos(d), f, random));
        let factor = if f > 0.0 { f } else { 1.0 };
        prop_assert!(jittered >= duration);
        prop_assert!(jittered.as_secs_f64() <= duration.as_secs_f64() * (1.0 + factor) + 1e-9);
    }
}

#[test]
fn wa_001_no_factor_is_a_factor_of_one() {
    assert_eq!(jitter(ms(100), 0.0, 0.5), ms(150));
    assert_eq!(jitter(ms(100), -3.0, 0.5), ms(150));
    assert_eq!(jitter(ms(100), 0.1, 0.0), ms(100));
}

#[test]
fn wa_002_waits_grow_without_their_jitter() {
    let mut backoff = Backoff { duration: ms(10), factor: 2.0, jitter: 1.0, steps: 3, cap: None };
    assert_eq!(backoff.step(0.5), ms(15));
    assert_eq!(backoff.step(0.0), ms(20), "grown from 10, not from 15");
    assert_eq!((backoff.step(0.25), backoff.steps), (ms(50), 0));
    assert_eq!(backoff.step(0.0), ms(80));
    assert_eq!(backoff.step(0.0), ms(80), "no steps are left, so nothing grows");
}

#[test]
fn wa_002_no_factor_leaves_the_wait_and_no_jitter_leaves_chance_out() {
    let mut backoff = Backoff { duration: ms(10), factor: 0.0, jitter: 0.0, steps: 2, cap: None };
    assert_eq!([backoff.step(0.9), backoff.step(0.9), backoff.step(0.9)], [ms(10); 3]);
}

#[test]
fn wa_002_the_cap_ends_the_steps() {
    let mut backoff = Backoff { duration: ms(10), factor: 10.0, jitter: 0.0, steps: 9, cap: Some(ms(50)) };
    assert_eq!(backoff.step(0.0), ms(10));
    assert_eq!((backoff.duration, backoff.steps), (ms(50), 0));
    assert_eq!(backoff.step(0.0), ms(50));
    let mut none = Backoff { cap: Some(Duration::ZERO), steps: 2, ..backoff };
    none.step(0.0);
    assert_eq!((none.duration, none.steps), (ms(500), 1), "a cap of zero is none");
}

#[test]
fn wa_003_there_is_no_wait_after_the_last_attempt() {
    let mut backoff = Backoff { jitter: 0.0, ..DEFAULT_BACKOFF };
    let waits: Vec<_> = std::iter::from_fn(|| backoff.next_wait(0.0)).collect();
    assert_eq!(waits, [ms(10), ms(50), ms(250)], "four attempts have three waits between them");
    let mut capped = Backoff { duration: ms(10), factor: 10.0, jitter: 0.0, steps: 9, cap: Some(ms(50)) };
    assert_eq!(capped.next_wait(0.0), None, "the cap has taken the other attempts, so there is nothing to wait for");
}

#[test]
fn rt_001_presets() {
    let waits =
        |mut backoff: Backoff, random| -> Vec<_> { std::iter::from_fn(move || backoff.next_wait(random)).collect() };
    assert_eq!(waits(DEFAULT_RETRY, 0.0), [ms(10); 4]);
    assert_eq!(waits(DEFAULT_RETRY, 1.0), [ms(11); 4]);
    assert_eq!(waits(DEFAULT_BACKOFF, 0.0), [ms(10), ms(50), ms(250)]);
    assert_eq!(waits(DEFAULT_BACKOFF, 1.0), [ms(11), ms(55), ms(275)]);
}

#[test]
fn odd_numbers_neither_panic_nor_wrap() {
    for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
        let mut backoff = Backoff { duration: ms(10), factor, jitter: factor, steps: 3, cap: None };
        for _ in 0..4 {
            backoff.step(0.5);
        }
    }
    let mut growing = Backoff { duration: ms(10), factor: 1e300, jitter: 0.0, steps: 3, cap: None };
    growing.step(0.0);
    assert_eq!(growing.step(0.0), Duration::MAX);
}
