//! [`RingClock`]: the time that a member counts its validity with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::environment::time_of_day;

/// A step of the time of day that is this much longer than that of the monotonic clock was a suspension.
const SUSPENSION: Duration = Duration::from_millis(500);

/// Elapsed time: that of the monotonic clock, and of the time of day where that moved forward further. On Linux the monotonic clock
/// stops while the machine is suspended. A clock that is set forward only shortens the validity.
#[derive(Clone, Debug)]
pub(super) struct RingClock(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    monotonic: Instant,
    wall: i64,
    elapsed: Duration,
}

impl RingClock {
    pub(super) fn new() -> Self {
        let reading = Reading { monotonic: Instant::now(), wall: wall_micros(), elapsed: Duration::ZERO };
        RingClock(Arc::new(Mutex::new(reading)))
    }

    /// Returns the elapsed time. It never goes back.
    pub(super) fn now(&self) -> Duration {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (monotonic, wall) = (Instant::now(), wall_micros());
        let stepped = monotonic.saturating_duration_since(last.monotonic);
        let wall_stepped = Duration::from_micros(u64::try_from(wall - last.wall).unwrap_or(0));
        let step = if wall_stepped > stepped + SUSPENSION { wall_stepped } else { stepped };
        *last = Reading { monotonic, wall, elapsed: last.elapsed + step };
        last.elapsed
    }
}

/// Returns the time of day in microseconds since the epoch.
pub(super) fn wall_micros() -> i64 {
    time_of_day().as_microsecond()
}
