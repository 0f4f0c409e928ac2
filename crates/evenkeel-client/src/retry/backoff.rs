//! [`Backoff`]: how long to wait between attempts, and how many there are.

use std::time::Duration;

use evenkeel_core::Status;
use evenkeel_core::duration::scale;

/// Waits that grow from attempt to attempt. A value, not a timer: it is given the dice and says how long to wait.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_client::Backoff;
///
/// let mut backoff = Backoff { jitter: 0.0, ..evenkeel_client::DEFAULT_BACKOFF };
/// assert_eq!(backoff.step(0.5), Duration::from_millis(10));
/// assert_eq!(backoff.step(0.5), Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The next wait, before jitter.
    pub duration: Duration,
    /// By what the wait grows with every step; 0 leaves it as it is.
    pub factor: f64,
    /// How much longer than `duration` a wait may get by chance, as a part of it: 0.1 for up to a tenth. 0 for none.
    pub jitter: f64,
    /// How many attempts are left.
    pub steps: u32,
    /// What `duration` does not grow beyond. Reaching it also ends the attempts.
    pub cap: Option<Duration>,
}

/// For writes that others may have raced: five attempts, about 10 ms apart.
pub const DEFAULT_RETRY: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 1.0, jitter: 0.1, steps: 5, cap: None };

/// For writes that others are likely to race again and again: four attempts, 10, 50 and 250 ms apart.
pub const DEFAULT_BACKOFF: Backoff =
    Backoff { duration: Duration::from_millis(10), factor: 5.0, jitter: 0.1, steps: 4, cap: None };

impl Backoff {
    /// The wait that is due now, and takes the step to the next one.
    ///
    /// `random` is evenly spread over `[0, 1)`. Jitter does not add up: the wait after this one grows from what this one
    /// would have been without. Without steps left, the same wait comes again and again.
    pub fn step(&mut self, random: f64) -> Duration {
        let wait = if self.jitter > 0.0 { jitter(self.duration, self.jitter, random) } else { self.duration };
        if self.steps == 0 {
            return wait;
        }
        self.steps -= 1;
        if self.factor != 0.0 {
            self.duration = scale(self.duration, self.factor);
        }
        if let Some(cap) = self.cap.filter(|cap| *cap > Duration::ZERO && self.duration > *cap) {
            self.duration = cap;
            self.steps = 0;
        }
        wait
    }

    /// How long to wait after an attempt that has failed; `None` if it was the last one, after which there is nothing to
    /// wait for.
    pub fn next_wait(&mut self, random: f64) -> Option<Duration> {
        if self.steps <= 1 {
            self.steps = 0;
            return None;
        }
        let wait = self.step(random);
        (self.steps > 0).then_some(wait)
    }
}

/// A time between `duration` and `duration * (1 + factor)`, never shorter than `duration`. A factor that is not positive
/// counts as 1. `random` is evenly spread over `[0, 1)`.
pub fn jitter(duration: Duration, factor: f64, random: f64) -> Duration {
    let factor = if factor > 0.0 { factor } else { 1.0 };
    duration.saturating_add(scale(duration, factor * random))
}

/// What a server asks to be waited for before the next try, if that is something to wait for.
pub(crate) fn asked_by(status: &Status) -> Duration {
    const LONGEST: Duration = Duration::from_secs(300);
    status.retry_after().unwrap_or_default().min(LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    proptest! {
        #[test]
        fn wa_001_jitter_only_ever_makes_longer(d in 0u64..1 << 40, f in -1.0..10.0f64, random in 0.0..1.0f64) {
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
        assert_eq!(
            capped.next_wait(0.0),
            None,
            "the cap has taken the other attempts, so there is nothing to wait for"
        );
    }

    #[test]
    fn rt_001_presets() {
        let waits = |mut backoff: Backoff, random| -> Vec<_> {
            std::iter::from_fn(move || backoff.next_wait(random)).collect()
        };
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
}
