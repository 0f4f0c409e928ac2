//! [`RateLimiter`]: how many requests we allow ourselves.
//!
//! [`Bucket`] is the arithmetic, with time passed in. [`RateLimiter`] puts a line of waiters and tokio's timers around it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::{ConfigError, Throttle};

/// A token bucket: it starts full, and every request takes a token out of it. Cheap to clone; clones share the bucket.
///
/// Whoever finds it empty waits, first come, first served. A wait that is given up takes no token with it, and those who
/// came later move up.
///
/// Every client has one of its own if its configuration asks for it; give one to
/// [`ClientBuilder::rate_limiter`](crate::ClientBuilder::rate_limiter) to share it among several clients. All time is
/// tokio's, so that paused tests see what they expect.
#[derive(Clone)]
pub struct RateLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    throttle: Throttle,
    state: Mutex<State>,
    /// Held by the first in line while it waits for its token. Tokio's lock is fair: this is the line.
    line: tokio::sync::Mutex<()>,
}

struct State {
    bucket: Bucket,
    /// How many are in line.
    waiting: u32,
}

/// There would be no token in time. None was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit would delay the request by {wait:?}, which is longer than it may take")]
#[non_exhaustive]
pub struct WouldExceedDeadline {
    /// How long it would have taken.
    pub wait: Duration,
}

impl RateLimiter {
    /// A limiter with a full bucket. The rate must be positive and the bucket hold at least one token: with less, no
    /// request would ever be sent.
    pub fn new(throttle: Throttle) -> Result<Self, ConfigError> {
        let invalid = |problem: &str| Err(ConfigError::Invalid { problem: problem.to_owned() });
        if !throttle.qps.is_finite() || throttle.qps <= 0.0 {
            return invalid("throttle.qps must be a positive number; for no limit, leave throttle out");
        }
        if throttle.burst == 0 {
            return invalid("throttle.burst must be at least 1 when throttle.qps is set");
        }
        Ok(RateLimiter::with_bucket(throttle, Bucket::new(throttle.qps.into(), throttle.burst.into(), Instant::now())))
    }

    /// A stand-in for tests that never makes anybody wait.
    pub fn always() -> Self {
        let bucket = Bucket::new(1.0, f64::INFINITY, Instant::now());
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: u32::MAX }, bucket)
    }

    /// A stand-in for tests that lets nobody through: waiting lasts for ever, and with a deadline fails at once.
    pub fn never() -> Self {
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: 0 }, Bucket::new(0.0, 0.0, Instant::now()))
    }

    fn with_bucket(throttle: Throttle, bucket: Bucket) -> Self {
        let state = Mutex::new(State { bucket, waiting: 0 });
        RateLimiter { inner: Arc::new(Inner { throttle, state, line: tokio::sync::Mutex::new(()) }) }
    }

    /// Takes a token if there is one and nobody waits for it.
    pub fn try_accept(&self) -> bool {
        let mut state = self.inner.state();
        state.waiting == 0 && state.bucket.try_take(Instant::now())
    }

    /// Waits for a token. Returns how long that took.
    pub async fn accept(&self) -> Duration {
        // Without a deadline no wait is too long.
        self.wait(None).await.unwrap_or_else(|too_long| too_long.wait)
    }

    /// Waits for a token until this moment; fails at once if it would come later. Returns how long it took.
    pub async fn wait(&self, deadline: Option<Instant>) -> Result<Duration, WouldExceedDeadline> {
        let started = Instant::now();
        let place = {
            let mut state = self.inner.state();
            if state.waiting == 0 && state.bucket.try_take(started) {
                return Ok(Duration::ZERO);
            }
            let place = f64::from(state.waiting) + 1.0;
            let wait = state.bucket.until(started, place);
            if deadline.is_some_and(|deadline| wait > deadline.saturating_duration_since(started)) {
                return Err(WouldExceedDeadline { wait });
            }
            state.waiting += 1;
            Place(&self.inner)
        };
        let _turn = self.inner.line.lock().await;
        loop {
            let now = Instant::now();
            let wait = {
                let mut state = self.inner.state();
                if state.bucket.try_take(now) {
                    break;
                }
                state.bucket.until(now, 1.0)
            };
            sleep(wait).await;
        }
        drop(place);
        Ok(started.elapsed())
    }

    /// The rate that was configured, in tokens per second.
    pub fn qps(&self) -> f32 {
        self.inner.throttle.qps
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimiter").field(&self.inner.throttle).finish()
    }
}

/// A place in line, given up when it is dropped.
struct Place<'a>(&'a Inner);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// The tokens, counted in fractions so that no rounding ever loses one.
#[derive(Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    /// When the tokens were counted.
    counted: Instant,
}

/// A token that lacks no more than this is there: it makes up for the rounding of fractions and of timers.
const WHOLE: f64 = 1.0 - 1e-6;

impl Bucket {
    fn new(qps: f64, burst: f64, now: Instant) -> Self {
        Bucket { qps, burst, tokens: burst, counted: now }
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.qps).min(self.burst);
        self.counted = self.counted.max(now);
    }

    fn try_take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let there = self.tokens >= WHOLE;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// How long until there have been this many tokens more.
    fn until(&mut self, now: Instant, tokens: f64) -> Duration {
        self.fill(now);
        let missing = (tokens - self.tokens).max(0.0);
        Duration::try_from_secs_f64(missing / self.qps).unwrap_or(Duration::MAX)
    }
}

/// Says when a wait for the limiter is worth a line in the log, which for the long ones is once in a while.
#[derive(Debug, Default)]
pub(crate) struct ThrottleLog {
    last: Mutex<Option<Instant>>,
}

/// A wait that is worth saying to whoever debugs.
const NOTABLE: Duration = Duration::from_millis(50);
/// A wait that its victim should know the reason of.
const LONG: Duration = Duration::from_secs(1);
/// How often the latter is said.
const LONG_EVERY: Duration = Duration::from_secs(10);

/// How loudly to speak of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Silent,
    Debug,
    Info,
}

impl ThrottleLog {
    pub(crate) fn notice(&self, waited: Duration, now: Instant) -> Notice {
        if waited <= NOTABLE {
            return Notice::Silent;
        }
        if waited <= LONG {
            return Notice::Debug;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now.saturating_duration_since(last) < LONG_EVERY) {
            return Notice::Debug;
        }
        *last = Some(now);
        Notice::Info
    }
}

#[cfg(test)]
mod tests;
