//! Doing something again and again: [`repeat`], [`poll_until`], [`poll_with_backoff`]; and what ends it before its time: [`Interrupted`].

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::retry::Backoff;

/// When the next run of something periodic begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This long after the last run has ended.
    Sliding(Duration),
    /// This long after the last run has begun, or at once if it took longer.
    Fixed(Duration),
}

impl Pace {
    /// When the next run begins.
    pub fn next_start(self, started: Instant, ended: Instant) -> Instant {
        match self {
            Pace::Sliding(period) => later(ended, period),
            Pace::Fixed(period) => later(started, period).max(ended),
        }
    }
}

/// A moment that is too far away to be told is as good as never.
fn later(from: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
    from.checked_add(by).unwrap_or_else(|| from + FAR)
}

/// Runs `body` at once and then again and again, until `stop` is ready. That is looked at before every run and between
/// runs; a run that has begun is finished. Dropping the future ends it anywhere.
pub async fn repeat<F>(pace: Pace, stop: impl Future, mut body: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    let mut stop = pin!(stop);
    while !is_ready(stop.as_mut()).await {
        let started = Instant::now();
        body().await;
        tokio::select! {
            biased;
            _ = &mut stop => return,
            () = tokio::time::sleep_until(pace.next_start(started, Instant::now())) => {}
        }
    }
}

/// Runs `condition` every `period` until it says yes, fails, or `stop` is ready, which may be a
/// [`sleep`](tokio::time::sleep) for a time limit.
///
/// If `immediate`, the first run comes at once, and it comes even if `stop` is ready already; else it comes after one
/// period. Runs begin on ticks that are `period` apart. A run that takes longer than that has the next one follow at once;
/// of several ticks that were missed, one is made up for. `stop` is looked at before every other run; a run that has begun
/// is finished.
pub async fn poll_until<E, F>(
    period: Duration,
    immediate: bool,
    stop: impl Future,
    mut condition: impl FnMut() -> F,
) -> Result<(), PollError<E>>
where
    F: Future<Output = Result<bool, E>>,
{
    let mut stop = pin!(stop);
    let mut ticks = Ticks { period, next: later(Instant::now(), period) };
    if immediate && condition().await.map_err(PollError::Condition)? {
        return Ok(());
    }
    loop {
        tokio::select! {
            biased;
            _ = &mut stop => return Err(PollError::Interrupted(Interrupted::Stopped)),
            () = tokio::time::sleep_until(ticks.next) => {}
        }
        ticks.pass(Instant::now());
        if condition().await.map_err(PollError::Condition)? {
            return Ok(());
        }
    }
}

/// Runs `condition` until it says yes or fails, at once and then as `backoff` says: at most as often as it has steps, and
/// without a wait after the last run.
pub async fn poll_with_backoff<E, F>(mut backoff: Backoff, mut condition: impl FnMut() -> F) -> Result<(), PollError<E>>
where
    F: Future<Output = Result<bool, E>>,
{
    while backoff.steps > 0 {
        if condition().await.map_err(PollError::Condition)? {
            return Ok(());
        }
        let Some(wait) = backoff.next_wait(fastrand::f64()) else { break };
        tokio::time::sleep(wait).await;
    }
    Err(PollError::Interrupted(Interrupted::TimedOut))
}

/// Moments that are a period apart.
struct Ticks {
    period: Duration,
    next: Instant,
}

impl Ticks {
    /// The tick that was due by `now` has been used: the next one is the first after `now`.
    fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.next).as_nanos().checked_div(self.period.as_nanos());
        let passed = passed.and_then(|passed| u32::try_from(passed).ok()).unwrap_or(0);
        self.next = later(self.next, self.period.saturating_mul(passed.saturating_add(1)));
    }
}

/// Whether a future is ready now. One that was must not be asked again.
pub(crate) async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Awaits a future, but not for longer than `limit`; zero is no limit.
pub async fn optional_timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Interrupted> {
    if limit.is_zero() {
        return Ok(future.await);
    }
    tokio::time::timeout(limit, future).await.map_err(|_| Interrupted::TimedOut)
}

/// Why something that was waited for did not come: nothing went wrong with it, there was just no more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interrupted {
    /// Time or attempts ran out.
    #[error("timed out waiting for the condition")]
    TimedOut,
    /// The signal to stop came.
    #[error("stopped waiting for the condition")]
    Stopped,
}

/// Why [`poll_until`] or [`poll_with_backoff`] ended without a yes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PollError<E> {
    /// It was told to stop, or has run as often as it may.
    #[error("the condition has not come true")]
    Interrupted(#[source] Interrupted),
    /// The condition failed.
    #[error("the condition failed: {0}")]
    Condition(E),
}

/// Whether an error, or what caused it, is that waiting came to an end before what was waited for: an [`Interrupted`], or
/// the [`Elapsed`](tokio::time::error::Elapsed) of tokio's timeouts.
pub fn is_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Interrupted>() || error.is::<tokio::time::error::Elapsed>() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
