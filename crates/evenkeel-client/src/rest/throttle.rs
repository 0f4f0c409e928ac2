//! [`RateLimiter`]: the client-side rate limit.
//!
//! [`TokenBucket`] is the arithmetic. [`RateLimiter`] adds a queue of waiters and tokio's timers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_base::TokenBucket;
use tokio::time::{Instant, sleep};

use crate::config::{ConfigError, Throttle};

/// A token bucket: it starts full, and every request takes a token. Cheap to clone; clones share the bucket.
///
/// Requests that find it empty wait in FIFO order. A cancelled wait takes no token, and later waiters move up.
///
/// A client has its own limiter if its configuration sets a rate;
/// [`ClientBuilder::rate_limiter`](crate::ClientBuilder::rate_limiter) shares one among clients. All time is tokio's,
/// so that it works in paused tests.
#[derive(Clone)]
pub struct RateLimiter {
    inner: Arc<LimiterInner>,
}

struct LimiterInner {
    throttle: Throttle,
    state: Mutex<LimiterState>,
    /// Held by the first waiter. Tokio's lock is fair: it is the queue.
    line: tokio::sync::Mutex<()>,
}

struct LimiterState {
    bucket: TokenBucket,
    /// The origin of the bucket's time.
    origin: Instant,
    /// The number of waiters.
    waiting: u32,
}

/// There is no token before the deadline. None was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit would delay the request by {wait:?}, which exceeds its timeout")]
#[non_exhaustive]
pub struct WouldExceedDeadline {
    /// The wait.
    pub wait: Duration,
}

impl RateLimiter {
    /// Creates a limiter with a full bucket. The rate must be positive and the burst at least one: otherwise no request
    /// would ever be sent.
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

    /// Creates a limiter for tests that never waits.
    pub fn always() -> Self {
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: u32::MAX }, TokenBucket::every(Duration::ZERO, u32::MAX))
    }

    /// Creates a limiter for tests that never has a token: a wait never ends, and with a deadline fails at once.
    pub fn never() -> Self {
        RateLimiter::with_bucket(Throttle { qps: 1.0, burst: 0 }, TokenBucket::every(Duration::MAX, 0))
    }

    fn with_bucket(throttle: Throttle, bucket: TokenBucket) -> Self {
        let state = Mutex::new(LimiterState { bucket, origin: Instant::now(), waiting: 0 });
        RateLimiter { inner: Arc::new(LimiterInner { throttle, state, line: tokio::sync::Mutex::new(()) }) }
    }

    /// Takes a token if there is one and no waiter.
    pub fn try_accept(&self) -> bool {
        let mut state = self.inner.state();
        state.waiting == 0 && state.try_take(Instant::now())
    }

    /// Waits for a token. Returns how long it took.
    pub async fn accept(&self) -> Duration {
        // Without a deadline no wait is too long.
        self.wait(None).await.unwrap_or_else(|too_long| too_long.wait)
    }

    /// Waits for a token until the deadline; fails at once if the token would be later. Returns how long it took.
    pub async fn wait(&self, deadline: Option<Instant>) -> Result<Duration, WouldExceedDeadline> {
        let started = Instant::now();
        let position = {
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
            QueuePosition(&self.inner)
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
        drop(position);
        Ok(started.elapsed())
    }

    /// Returns the configured rate, in tokens per second.
    pub fn qps(&self) -> f32 {
        self.inner.throttle.qps
    }
}

impl LimiterState {
    fn try_take(&mut self, now: Instant) -> bool {
        self.bucket.try_take(now.saturating_duration_since(self.origin))
    }

    /// Returns the wait until so many further tokens have been there.
    fn wait_for(&mut self, now: Instant, tokens: u32) -> Duration {
        self.bucket.wait_for(now.saturating_duration_since(self.origin), tokens)
    }
}

impl LimiterInner {
    fn state(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimiter").field(&self.inner.throttle).finish()
    }
}

/// A position in the queue, left on drop.
struct QueuePosition<'a>(&'a LimiterInner);

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// Decides whether a wait is logged. Long waits are logged once per interval.
#[derive(Debug, Default)]
pub(crate) struct ThrottleLog {
    last: Mutex<Option<Instant>>,
}

/// The shortest wait that is logged at debug level.
const NOTABLE: Duration = Duration::from_millis(50);
/// The shortest wait that is logged at info level.
const LONG: Duration = Duration::from_secs(1);
/// The interval of the latter.
const LONG_EVERY: Duration = Duration::from_secs(10);

/// The log level of a wait.
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
