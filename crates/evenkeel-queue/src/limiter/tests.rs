#![expect(clippy::disallowed_methods, reason = "a test starts somewhere")]

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::compat::{FastSlow, MaxWait, default_item_limiter};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Returns the waits after the first failures of one key, all at one time.
fn waits(limiter: &impl RateLimiter<str>, failures: u32) -> Vec<Duration> {
    let now = Instant::now();
    (1..=failures).map(|failures| limiter.when("one", failures, now)).collect()
}

/// Counts the calls of a member.
#[derive(Default)]
struct Spy {
    calls: AtomicU32,
    forgotten: AtomicU32,
}

impl RateLimiter<str> for Spy {
    fn when(&self, _key: &str, _failures: u32, _now: Instant) -> Duration {
        self.calls.fetch_add(1, Ordering::Relaxed);
        MS
    }

    fn forget(&self, _key: &str) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn rl_001_limiters_are_shared_between_threads_behind_pointers() {
    fn limits<L: RateLimiter<str>>(limiter: &L) -> Option<Duration> {
        limiter.forget("one");
        assert_eq!(limiter.when("one", 2, Instant::now()), 2 * MS);
        limiter.longest()
    }
    let limiter = Exponential::new(MS, SECOND);
    assert_eq!(limits(&Arc::new(limiter)), Some(SECOND));
    assert_eq!(limits(&(Box::new(limiter) as Box<dyn RateLimiter<str>>)), Some(SECOND));
}

#[test]
fn rl_002_wqu_012_every_failure_doubles_the_wait_up_to_the_longest() {
    let limiter = Exponential::new(MS, SECOND);
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000].map(|wait| wait * MS);
    assert_eq!(waits(&limiter, 12), expected);
    // A lost count is treated as the first failure.
    assert_eq!(limiter.when("one", 0, Instant::now()), MS);
}

#[test]
fn rl_003_wqu_012_no_number_of_failures_overflows() {
    let now = Instant::now();
    let short = Exponential::new(MS, 1000 * SECOND);
    let long = Exponential::new(60 * SECOND, 1000 * 3600 * SECOND);
    let endless = Exponential::new(Duration::from_nanos(1), Duration::MAX);
    for failures in [1001, 4095, 1 << 31, u32::MAX] {
        assert_eq!(short.when("one", failures, now), 1000 * SECOND);
        assert_eq!(long.when("one", failures, now), 1000 * 3600 * SECOND);
        assert_eq!(endless.when("one", failures, now), Duration::MAX);
    }
    assert_eq!(long.when("one", 16, now), 60 * 32_768 * SECOND);
    assert_eq!(long.when("one", 17, now), 1000 * 3600 * SECOND);
    // 2 to the power of 93 nanoseconds is the last that fits.
    let last = endless.when("one", 94, now);
    assert_eq!(last.as_nanos(), 1 << 93);
    assert_eq!(endless.when("one", 95, now), Duration::MAX);
}

#[test]
fn rl_003_a_first_wait_of_zero_or_above_the_maximum_is_constant() {
    assert_eq!(waits(&Exponential::new(Duration::ZERO, SECOND), 3), [Duration::ZERO; 3]);
    assert_eq!(waits(&Exponential::new(2 * SECOND, SECOND), 3), [SECOND; 3]);
    assert_eq!(waits(&Exponential::new(SECOND, Duration::ZERO), 3), [Duration::ZERO; 3]);
    assert_eq!(waits(&Exponential::new(Duration::MAX, Duration::MAX), 3), [Duration::MAX; 3]);
}

#[test]
fn rl_004_from_5_ms_it_takes_nineteen_failures_to_wait_for_1000_s() {
    let waits = waits(&Exponential::new(5 * MS, 1000 * SECOND), 25);
    for (doublings, wait) in waits[..18].iter().enumerate() {
        assert_eq!(*wait, 5 * MS * (1 << doublings));
    }
    assert_eq!(waits[17], Duration::from_millis(655_360));
    assert_eq!(waits[18..], [1000 * SECOND; 7]);
}

#[test]
fn rl_005_wqu_013_the_first_attempts_are_fast_and_all_others_slow() {
    let limiter = FastSlow::new(5 * MS, 10 * SECOND, 3);
    assert_eq!(waits(&limiter, 5), [5 * MS, 5 * MS, 5 * MS, 10 * SECOND, 10 * SECOND]);
    assert_eq!(limiter.when("one", u32::MAX, Instant::now()), 10 * SECOND);
    assert_eq!(RateLimiter::<str>::longest(&limiter), Some(10 * SECOND));
    assert_eq!(waits(&FastSlow::new(MS, SECOND, 0), 1), [SECOND]);
}

#[test]
fn rl_008_wqu_015_the_longest_wait_of_all_members_counts() {
    let limiter = MaxOf::<str>::new().and(FastSlow::new(5 * MS, 3 * SECOND, 3)).and(Exponential::new(MS, SECOND));
    assert_eq!(waits(&limiter, 5), [5 * MS, 5 * MS, 5 * MS, 3 * SECOND, 3 * SECOND]);
    assert_eq!(limiter.longest(), Some(3 * SECOND));
    assert_eq!(waits(&MaxOf::<str>::new(), 2), [Duration::ZERO; 2]);
    assert_eq!(MaxOf::<str>::default().longest(), None);
}

#[test]
fn rl_008_wqu_015_every_member_receives_every_failure_and_every_forget() {
    let (first, last) = (Arc::new(Spy::default()), Arc::new(Spy::default()));
    let limiter = MaxOf::<str>::new()
        .and(Arc::clone(&first))
        .and(Exponential::new(SECOND, SECOND))
        .and(Bucket::new(1.0, 2).unwrap())
        .and(Arc::clone(&last));
    // The bucket loses a token each time, though a second is longer than its wait.
    assert_eq!(waits(&limiter, 4), [SECOND, SECOND, SECOND, 2 * SECOND]);
    limiter.forget("one");
    for spy in [first, last] {
        assert_eq!(spy.calls.load(Ordering::Relaxed), 4);
        assert_eq!(spy.forgotten.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn rl_009_wqu_016_a_wait_is_capped() {
    let limiter = MaxWait::new(FastSlow::new(5 * MS, 1000 * SECOND, 100), 500 * SECOND);
    let waits = waits(&limiter, 200);
    assert_eq!(waits[..100], [5 * MS; 100]);
    assert_eq!(waits[100..], [500 * SECOND; 100]);
    assert_eq!(RateLimiter::<str>::longest(&limiter), Some(500 * SECOND));
}

#[test]
fn rl_009_wqu_016_the_inner_limiter_is_unaffected_by_the_cap() {
    let now = Instant::now();
    let limiter = MaxWait::new(Arc::new(Bucket::new(1.0, 1).unwrap()), 2 * SECOND);
    let waits: Vec<_> = (0..5).map(|_| limiter.when("one", 1, now)).collect();
    assert_eq!(waits, [0, 1, 2, 2, 2].map(|wait| wait * SECOND));
    // Its tokens are reserved, so the sixth is due after five seconds, not after three.
    assert_eq!(limiter.when("one", 1, now + 4 * SECOND), SECOND);
    let spy = Arc::new(Spy::default());
    let limiter = MaxWait::new(Arc::clone(&spy), SECOND);
    limiter.forget("one");
    assert_eq!(spy.forgotten.load(Ordering::Relaxed), 1);
    // It bounds a limiter without a maximum.
    assert_eq!((spy.longest(), limiter.longest()), (None, Some(SECOND)));
}

#[test]
fn rl_010_wqu_017_the_limiter_of_controllers_doubles_for_each_key_and_has_a_bucket_for_all() {
    let limiter = default_controller_limiter::<str>();
    let now = Instant::now();
    assert_eq!(limiter.when("one", 1, now), 5 * MS);
    assert_eq!(limiter.when("one", 19, now), 1000 * SECOND);
    for _ in 0..98 {
        assert_eq!(limiter.when("other", 1, now), 5 * MS);
    }
    assert_eq!(limiter.when("other", 1, now), 100 * MS);
    // The bucket has no longest wait, but it ignores failures anyway.
    assert_eq!(limiter.longest(), Some(1000 * SECOND));
}

#[test]
fn rl_011_wqu_017_the_limiter_of_items_doubles_from_1_ms_to_1000_s() {
    let waits = waits(&default_item_limiter(), 22);
    assert_eq!(waits[..3], [MS, 2 * MS, 4 * MS]);
    assert_eq!(waits[19..], [Duration::from_millis(524_288), 1000 * SECOND, 1000 * SECOND]);
}

#[test]
fn rl_012_keys_that_keep_failing_do_not_slow_down_others_unless_they_share_a_bucket() {
    let now = Instant::now();
    let (alone, shared) = (default_item_limiter(), default_controller_limiter::<str>());
    for _ in 0..1000 {
        alone.when("hopeless", 30, now);
        shared.when("hopeless", 30, now);
    }
    assert_eq!(alone.when("fresh", 1, now), MS);
    assert!(shared.when("fresh", 1, now) > 90 * SECOND);
}

#[test]
fn qhc_11_150_failing_keys_with_the_default_limiter() {
    let limiter = default_controller_limiter::<u32>();
    let now = Instant::now();
    let waits: Vec<_> = (1..=150).map(|key| limiter.when(&key, 1, now)).collect();
    assert_eq!(waits[..100], [5 * MS; 100]);
    assert_eq!(waits[119], 2 * SECOND);
    assert_eq!(waits[149], 5 * SECOND);
}

fn some_duration() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..64_u32, 0..1_000_000_000_u32)
        .prop_map(|(seconds, shift, nanos)| Duration::new(seconds >> shift, nanos))
}

proptest! {
    #[test]
    fn rl_002_waits_are_exact_never_fall_and_never_exceed_the_longest(
        base in some_duration(),
        max in some_duration(),
        failures in 1..200_u32,
    ) {
        let limiter = Exponential::new(base, max);
        let now = Instant::now();
        let wait = limiter.when("one", failures, now);
        let exact = (0..failures - 1).fold(base, |wait, _| wait.saturating_add(wait)).min(max);
        prop_assert_eq!(wait, exact);
        prop_assert!(limiter.when("one", failures + 1, now) >= wait);
    }
}
