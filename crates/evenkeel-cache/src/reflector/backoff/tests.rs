use super::*;

fn waits(delays: &mut BackoffState, now: Instant, random: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| delays.failed(now, random).as_secs_f64()).collect()
}

#[test]
fn ref_007_waits_double_up_to_30_s_and_jitter_at_most_doubles_them() {
    let now = Instant::now();
    let curve = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0];
    assert_eq!(waits(&mut BackoffState::new(Backoff::default()), now, 0.0, 8), curve);
    let longest = waits(&mut BackoffState::new(Backoff::default()), now, 0.999, 8);
    for (wait, base) in longest.iter().zip(curve) {
        assert!(*wait > base * 1.99 && *wait < base * 2.0, "{wait} of {base}");
    }
}

#[test]
fn ref_009_only_a_time_without_failures_resets_the_backoff() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut delays = BackoffState::new(Backoff::default());
    waits(&mut delays, start, 0.0, 5);
    assert_eq!(delays.failed(at(600), 0.0).as_secs_f64(), 25.6, "time alone heals nothing");
    delays.succeeded(at(601));
    delays.succeeded(at(700));
    assert_eq!(delays.failed(at(720), 0.0).as_secs_f64(), 30.0, "two minutes less a second");
    delays.succeeded(at(721));
    assert_eq!((delays.failed(at(841), 0.0).as_secs_f64(), delays.failures()), (0.8, 1));
}

#[test]
fn ref_011_the_backoff_is_configurable() {
    let ms = Duration::from_millis;
    let curve = Backoff { initial: ms(10), factor: 2.0, cap: ms(100), jitter: 0.0, ..Backoff::default() };
    let total: f64 = waits(&mut BackoffState::new(curve), Instant::now(), 0.7, 5).iter().sum();
    assert!((total - 0.250).abs() < 1e-9, "10 + 20 + 40 + 80 + 100 ms, not {total}");
}

#[test]
fn leg_010_one_backoff_state_grows_with_every_failure() {
    let mut delays = BackoffState::new(Backoff { jitter: 0.0, ..Backoff::default() });
    let first = delays.failed(Instant::now(), 0.0);
    assert!(delays.failed(Instant::now(), 0.0) > first);
}

#[test]
fn the_backoff_has_a_minimal_wait() {
    let mut delays = BackoffState::new(Backoff { initial: Duration::ZERO, ..Backoff::default() });
    assert_eq!(delays.failed(Instant::now(), 0.0), SHORTEST);
}

#[test]
fn extreme_backoffs_neither_panic_nor_wrap() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
        let mut delays = BackoffState::new(Backoff { factor: odd, jitter: odd, ..Backoff::default() });
        for wait in waits(&mut delays, Instant::now(), 0.5, 4) {
            assert!(wait >= 0.8, "{odd}: never hot");
        }
    }
}
