//! Whether and when a request is retried. Decisions only: the time and the random number are arguments.

use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

use crate::config::Retry;
use crate::transport::TransportFault;

/// The wait before a retry whose connection was lost.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// By how much a wait may exceed the server's `Retry-After`, so that clients that were rejected together do not retry
/// together.
const JITTER: f64 = 0.1;

/// How the response is consumed, which decides what may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// Read to its end.
    Whole,
    /// Passed on as bytes arrive.
    Stream,
    /// A watch.
    Watch,
    /// An upgrade: the connection is passed on.
    Upgrade,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// A response with this status and this `Retry-After`.
    Responded(StatusCode, Option<Duration>),
    /// No response.
    Failed(TransportFault),
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Return the outcome.
    Return,
    /// Retry after this wait.
    RetryAfter(Duration),
}

/// The retry state of one request.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    left: u32,
    max_retry_after: Duration,
    max_elapsed: Duration,
    mode: ResponseMode,
    /// Whether repeating the request has no further effect.
    safe: bool,
    /// Whether the body can be sent again.
    replayable: bool,
    /// Whether the request may be repeated once with new credentials.
    reauthorize: bool,
    /// Whether the request may be repeated in JSON.
    renegotiate: bool,
}

impl Retries {
    pub(crate) fn new(config: &Retry, mode: ResponseMode, method: &Method, replayable: bool) -> Self {
        Retries {
            left: config.max_retries,
            max_retry_after: config.max_retry_after,
            max_elapsed: config.max_elapsed,
            mode,
            safe: *method == Method::GET || *method == Method::POST && is_planted(Defect::PostRepeated),
            replayable,
            reauthorize: replayable && config.max_retries > 0,
            renegotiate: replayable && config.max_retries > 0,
        }
    }

    /// Returns whether the request may be repeated with new credentials: once, and in addition to the other retries.
    pub(crate) fn reauthorize(&mut self) -> bool {
        std::mem::take(&mut self.reauthorize)
    }

    /// Returns whether the request may be repeated in JSON, in addition to the other retries.
    pub(crate) fn renegotiate(&self) -> bool {
        self.renegotiate
    }

    /// Decides what follows an attempt. `random` is from 0 to 1, `elapsed` the time since the first attempt, `time_left` the
    /// rest of the request's timeout. A wait that ends after either bound is not started: the error of the attempt says more
    /// than a timeout.
    pub(crate) fn decide(
        &mut self,
        outcome: AttemptOutcome,
        random: f64,
        elapsed: Duration,
        time_left: Option<Duration>,
    ) -> RetryDecision {
        let Some(wait) = self.wait(outcome, random) else { return RetryDecision::Return };
        let is_too_long = elapsed.saturating_add(wait) > self.max_elapsed || time_left.is_some_and(|left| wait >= left);
        if self.left == 0 || !self.replayable || is_too_long {
            return RetryDecision::Return;
        }
        self.left -= 1;
        RetryDecision::RetryAfter(wait)
    }

    fn wait(&self, outcome: AttemptOutcome, random: f64) -> Option<Duration> {
        match outcome {
            AttemptOutcome::Responded(status, retry_after) => {
                let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
                let wait = retry_after.filter(|_| busy)?.min(self.max_retry_after);
                if is_planted(Defect::RetryAfterIgnored) {
                    return Some(Duration::ZERO);
                }
                let extra = wait.as_secs_f64() * JITTER * random.clamp(0.0, 1.0);
                let extra = Duration::try_from_secs_f64(extra).unwrap_or(Duration::MAX);
                Some(wait.saturating_add(extra).min(self.max_retry_after))
            }
            AttemptOutcome::Failed(fault) => {
                let lost = matches!(fault, TransportFault::Reset | TransportFault::Closed | TransportFault::Http2Lost);
                let late = matches!(fault, TransportFault::ConnectTimeout | TransportFault::Timeout);
                let again = match self.mode {
                    ResponseMode::Whole => self.safe && lost,
                    ResponseMode::Stream | ResponseMode::Upgrade => false,
                    ResponseMode::Watch => lost || late,
                };
                again.then_some(AFTER_FAULT)
            }
        }
    }
}

/// Parses `Retry-After`. As in client-go, only whole seconds count: a date depends on the clocks of both sides. A number that
/// overflows is the maximum.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
