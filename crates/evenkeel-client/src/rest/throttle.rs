//! [`RateLimiter`]: how many requests we allow ourselves.
//!
//! [`TokenBucket`] is the arithmetic. [`RateLimiter`] adds a line of waiters and tokio's timers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::TokenBucket;
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
    bucket: TokenBucket,
    /// The origin of the bucket's time.
    origin: Instant,
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
        let Some(tokens) = TokenBucket::per_second(throttle.qps.into(), throttle.burst) else {
            return invalid("throttle.qps must be a positive number; for no limit, leave throttle out");
        };
        if throttle.burst == 0 {
            return invalid("throttle.burst must be at least 1 when throttle.qps is set");
        }
        Ok(RateLimiter::with_bucket(throttle, tokens))
    }

    /// A stand-in for tests that never makes anybody wait.
    pub fn always() -> Self {
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: u32::MAX }, TokenBucket::every(Duration::ZERO, u32::MAX))
    }

    /// A stand-in for tests that lets nobody through: waiting lasts for ever, and with a deadline fails at once.
    pub fn never() -> Self {
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: 0 }, TokenBucket::every(Duration::MAX, 0))
    }

    fn with_bucket(throttle: Throttle, bucket: TokenBucket) -> Self {
        let state = Mutex::new(State { bucket, origin: Instant::now(), waiting: 0 });
        RateLimiter { inner: Arc::new(Inner { throttle, state, line: tokio::sync::Mutex::new(()) }) }
    }

    /// Takes a token if there is one and nobody waits for it.
    pub fn try_accept(&self) -> bool {
        let mut state = self.inner.state();
        state.waiting == 0 && state.try_take(Instant::now())
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
            if state.waiting == 0 && state.try_take(started) {
                return Ok(Duration::ZERO);
            }
            let tokens = state.waiting.saturating_add(1);
            let wait = state.wait_for(started, tokens);
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
                if state.try_take(now) {
                    break;
                }
                state.wait_for(now, 1)
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

impl State {
    fn try_take(&mut self, now: Instant) -> bool {
        self.bucket.try_take(now.saturating_duration_since(self.origin))
    }

    /// Returns the wait until so many further tokens have been there.
    fn wait_for(&mut self, now: Instant, tokens: u32) -> Duration {
        self.bucket.wait_for(now.saturating_duration_since(self.origin), tokens)
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
