#![expect(clippy::disallowed_methods, reason = "a test starts somewhere")]

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn doubling_is_exact_and_ends_at_the_cap() {
    let backoff = Backoff::doubling(5 * MS, 1000 * SECOND);
    let waits: Vec<u128> = (0..=20).map(|failures| backoff.wait(failures).as_millis()).collect();
    assert_eq!(waits[..6], [5, 5, 10, 20, 40, 80]);
    assert_eq!(waits[18], 655_360);
    assert_eq!(waits[19..], [1_000_000, 1_000_000]);
    assert_eq!(Backoff::doubling(Duration::from_nanos(1), Duration::MAX).wait(u32::MAX), Duration::MAX);
    assert_eq!(
        Backoff::doubling(Duration::from_nanos(1), Duration::MAX).wait(65),
        Duration::new(18_446_744_073, 709_551_616)
    );
}

#[test]
fn extreme_parameters_have_a_wait() {
    assert_eq!(Backoff::doubling(Duration::ZERO, SECOND).wait(9), Duration::ZERO);
    assert_eq!(Backoff::doubling(2 * SECOND, SECOND).wait(1), SECOND);
    let shrinking = Backoff { factor: 0.5, ..Backoff::doubling(SECOND, 10 * SECOND) };
    assert_eq!(shrinking.wait(5), SECOND);
    let fast = Backoff { factor: 5.0, ..Backoff::doubling(10 * MS, 300 * MS) };
    assert_eq!([1, 2, 3, 4].map(|failures| fast.wait(failures)), [10 * MS, 50 * MS, 250 * MS, 300 * MS]);
    assert_eq!(Backoff { factor: f64::INFINITY, ..fast }.wait(3), 300 * MS);
}

#[test]
fn a_failure_after_the_reset_window_counts_as_the_first() {
    let begin = Instant::now();
    let mut state = BackoffState::new(Backoff { jitter: 0.0, ..Backoff::default() });
    assert_eq!(state.failed(begin, 0.5), 800 * MS);
    assert_eq!(state.failed(begin, 0.5), 1600 * MS);
    state.succeeded(begin + SECOND);
    state.succeeded(begin + 100 * SECOND);
    assert_eq!(state.failed(begin + 120 * SECOND, 0.5), 3200 * MS, "119 s without a failure");
    state.succeeded(begin + 200 * SECOND);
    assert_eq!(state.failed(begin + 320 * SECOND, 0.5), 800 * MS, "120 s without a failure");
    assert_eq!(state.failures(), 1);
    state.reset();
    assert_eq!(state.failures(), 0);
}

#[test]
fn jitter_adds_at_most_its_fraction() {
    let backoff = Backoff { jitter: 0.5, ..Backoff::doubling(SECOND, 8 * SECOND) };
    let mut state = BackoffState::new(backoff);
    assert_eq!(state.failed(Instant::now(), 0.0), SECOND);
    assert_eq!(state.failed(Instant::now(), 1.0), 3 * SECOND, "jitter does not compound");
    assert_eq!(state.failed(Instant::now(), 0.5), 5 * SECOND);
    assert_eq!(jitter(SECOND, 0.0, 0.5), 1500 * MS, "a factor of zero counts as 1");
    assert_eq!(jitter(Duration::MAX, 1.0, 0.5), Duration::MAX);
    assert_eq!(scale(SECOND, f64::NAN), SECOND);
    assert_eq!(scale(SECOND, -1.0), Duration::ZERO);
}

#[test]
fn scaling_saturates_and_no_factor_panics() {
    let second = Duration::from_secs(1);
    assert_eq!(scale(second, 2.5), Duration::from_millis(2500));
    assert_eq!(scale(second, f64::NAN), second);
    assert_eq!((scale(second, 1e300), scale(second, -1.0)), (Duration::MAX, Duration::ZERO));
}
