//! [`Backoff`]: how long the reflector waits after a failure. No clock and no dice of its own.

use std::time::Duration;

use evenkeel_core::duration::scale;
use tokio::time::Instant;

/// How long the reflector waits after a failure: longer every time, up to a limit, and a little by chance so that many
/// reflectors do not come back at once.
///
/// There is one such state for everything that a reflector does again: lists, watches and WatchLists. It begins anew when
/// the reflector has been [well](Self::reset_after) for a while, and not before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first wait, before jitter.
    pub initial: Duration,
    /// By what the wait grows with every failure.
    pub factor: f64,
    /// What the wait does not grow beyond, before jitter.
    pub cap: Duration,
    /// How much longer a wait may get by chance, as a part of it: 1.0 for up to twice as long. 0 for none.
    pub jitter: f64,
    /// How long a watch must have been open without a failure for the waits to begin anew.
    pub reset_after: Duration,
}

impl Default for Backoff {
    /// 0.8 s, doubled up to 30 s, each up to twice as long by chance; anew after two minutes without a failure.
    fn default() -> Self {
        Backoff {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// No wait is shorter than this, whatever the curve: others must get their turn.
const SHORTEST: Duration = Duration::from_millis(1);

/// Where a reflector stands in its [`Backoff`].
#[derive(Debug)]
pub(super) struct Delays {
    curve: Backoff,
    /// The next wait, before jitter.
    base: Duration,
    /// How many failures there have been in a row.
    failures: u32,
    /// Since when nothing has failed.
    well_since: Option<Instant>,
}

impl Delays {
    pub(super) fn new(curve: Backoff) -> Self {
        Delays { curve, base: curve.initial.min(curve.cap), failures: 0, well_since: None }
    }

    /// Things work now.
    pub(super) fn well(&mut self, now: Instant) {
        self.well_since.get_or_insert(now);
    }

    /// Things have failed: how long to wait. `random` is evenly spread over `[0, 1)`.
    pub(super) fn failed(&mut self, now: Instant, random: f64) -> Duration {
        if let Some(since) = self.well_since.take()
            && now.saturating_duration_since(since) >= self.curve.reset_after
        {
            *self = Delays::new(self.curve);
        }
        self.failures = self.failures.saturating_add(1);
        let wait = self.base.saturating_add(scale(self.base, (self.curve.jitter * random).max(0.0)));
        self.base = scale(self.base, self.curve.factor).clamp(self.base.min(self.curve.cap), self.curve.cap);
        wait.max(SHORTEST)
    }

    /// How many failures there have been in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(delays: &mut Delays, now: Instant, random: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| delays.failed(now, random).as_secs_f64()).collect()
    }

    #[test]
    fn ref_007_waits_double_up_to_half_a_minute_and_chance_doubles_them() {
        let now = Instant::now();
        let curve = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0];
        assert_eq!(waits(&mut Delays::new(Backoff::default()), now, 0.0, 8), curve);
        let longest = waits(&mut Delays::new(Backoff::default()), now, 0.999, 8);
        for (wait, base) in longest.iter().zip(curve) {
            assert!(*wait > base * 1.99 && *wait < base * 2.0, "{wait} of {base}");
        }
    }

    #[test]
    fn ref_009_only_a_time_without_failures_begins_anew() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut delays = Delays::new(Backoff::default());
        waits(&mut delays, start, 0.0, 5);
        assert_eq!(delays.failed(at(600), 0.0).as_secs_f64(), 25.6, "time alone heals nothing");
        delays.well(at(601));
        delays.well(at(700));
        assert_eq!(delays.failed(at(720), 0.0).as_secs_f64(), 30.0, "two minutes less a second");
        delays.well(at(721));
        assert_eq!((delays.failed(at(841), 0.0).as_secs_f64(), delays.failures()), (0.8, 1));
    }

    #[test]
    fn ref_011_the_curve_can_be_another() {
        let ms = Duration::from_millis;
        let curve = Backoff { initial: ms(10), factor: 2.0, cap: ms(100), jitter: 0.0, ..Backoff::default() };
        let total: f64 = waits(&mut Delays::new(curve), Instant::now(), 0.7, 5).iter().sum();
        assert!((total - 0.250).abs() < 1e-9, "10 + 20 + 40 + 80 + 100 ms, not {total}");
    }

    #[test]
    fn leg_010_one_state_serves_all_and_none_is_fixed() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        let first = delays.failed(Instant::now(), 0.0);
        assert!(delays.failed(Instant::now(), 0.0) > first);
    }

    #[test]
    fn no_curve_is_without_waits() {
        let mut delays = Delays::new(Backoff { initial: Duration::ZERO, ..Backoff::default() });
        assert_eq!(delays.failed(Instant::now(), 0.0), SHORTEST);
    }

    #[test]
    fn odd_curves_neither_panic_nor_wrap() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
            let mut delays = Delays::new(Backoff { factor: odd, jitter: odd, ..Backoff::default() });
            for wait in waits(&mut delays, Instant::now(), 0.5, 4) {
                assert!(wait >= 0.8, "{odd}: never hot");
            }
        }
    }
}
