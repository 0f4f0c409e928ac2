//! Polling: [`repeat`], [`poll_until`], [`poll_with_backoff`]; and [`Interrupted`].

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::retry::Backoff;

/// When the next run of [`repeat`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This long after the end of the last run.
    Sliding(Duration),
    /// This long after the start of the last run, or at once if it took longer.
    Fixed(Duration),
}

impl Pace {
    /// Returns when the next run starts.
    pub fn next_start(self, started: Instant, ended: Instant) -> Instant {
        match self {
            Pace::Sliding(period) => later(ended, period),
            Pace::Fixed(period) => later(started, period).max(ended),
        }
    }
}

/// Adds, saturating at a far future.
fn later(from: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
    from.checked_add(by).unwrap_or_else(|| from + FAR)
}

/// Runs `body` at once and then repeatedly, until `stop` is ready. `stop` is checked before every run and between runs;
/// a started run is finished. Dropping the future cancels it at any point.
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

/// Runs `condition` every `period` until it returns true or fails, or `stop` is ready, such as a
/// [`sleep`](tokio::time::sleep) as a time limit.
///
/// With `immediate` the first run starts at once, even if `stop` is ready; else after one period. Runs start on ticks
/// that are `period` apart. After a run that took longer, the next one starts at once; of several missed ticks one is
/// made up for. `stop` is checked before every other run; a started run is finished.
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

/// Runs `condition` at once and then with `backoff` until it returns true or fails: at most as often as the backoff has
/// steps, and without a wait after the last run.
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

/// Ticks with a period.
struct Ticks {
    period: Duration,
    next: Instant,
}

impl Ticks {
    /// Consumes the tick that was due by `now`: the next one is the first after `now`.
    fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.next).as_nanos().checked_div(self.period.as_nanos());
        let passed = passed.and_then(|passed| u32::try_from(passed).ok()).unwrap_or(0);
        self.next = later(self.next, self.period.saturating_mul(passed.saturating_add(1)));
    }
}

/// Returns whether a future is ready now. A ready future must not be polled again.
pub(crate) async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Awaits a future for at most `limit`; zero is no limit.
pub async fn optional_timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Interrupted> {
    if limit.is_zero() {
        return Ok(future.await);
    }
    tokio::time::timeout(limit, future).await.map_err(|_| Interrupted::TimedOut)
}

/// Why a wait ended early: nothing failed, but there was no more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interrupted {
    /// Time or attempts ran out.
    #[error("timed out waiting for the condition")]
    TimedOut,
    /// The stop signal was ready.
    #[error("stopped waiting for the condition")]
    Stopped,
}

/// Why [`poll_until`] or [`poll_with_backoff`] ended without success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PollError<E> {
    /// It was stopped, or has run as often as it may.
    #[error("the condition was not met")]
    Interrupted(#[source] Interrupted),
    /// The condition failed.
    #[error("the condition failed: {0}")]
    Condition(E),
}

/// Returns whether an error, or one of its sources, is an [`Interrupted`] or the
/// [`Elapsed`](tokio::time::error::Elapsed) of tokio's timeouts.
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
