//! Whether a request is sent again, and when: decisions only, with time and chance passed in.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

use crate::config::Retry;
use crate::transport::TransportFault;

/// How long to wait before a request is repeated whose connection was lost.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// By how much a server's `Retry-After` may be exceeded, so that those who were turned away together do not come back
/// together.
const JITTER: f64 = 0.1;

/// What is done with the answer, which decides what may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// It is read to its end.
    Call,
    /// Its bytes are handed out as they come.
    Stream,
    /// It is a watch.
    Watch,
}

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// There is an answer, with a wish to come back later or without.
    Answered(StatusCode, Option<Duration>),
    /// There is none.
    Failed(TransportFault),
}

/// What to do about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It was the last one.
    Return,
    /// Wait for so long, and try again.
    RetryAfter(Duration),
}

/// The retries of one call.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    left: u32,
    max_retry_after: Duration,
    terminal: Terminal,
    /// Whether repeating the request does nothing twice.
    safe: bool,
    /// Whether the body can be sent again.
    replayable: bool,
    /// Whether the request may be repeated once with new credentials.
    reauthorize: bool,
    /// Whether the request may be repeated in another form.
    renegotiate: bool,
}

impl Retries {
    pub(crate) fn new(config: &Retry, terminal: Terminal, method: &Method, replayable: bool) -> Self {
        Retries {
            left: config.max_retries,
            max_retry_after: config.max_retry_after,
            terminal,
            safe: *method == Method::GET,
            replayable,
            reauthorize: replayable && config.max_retries > 0,
            renegotiate: replayable && config.max_retries > 0,
        }
    }

    /// Whether the request may be repeated with new credentials: once, and besides the other retries.
    pub(crate) fn reauthorize(&mut self) -> bool {
        std::mem::take(&mut self.reauthorize)
    }

    /// Whether the request may be repeated in a form that the server understands: if it may be repeated at all, and besides
    /// the other retries.
    pub(crate) fn renegotiate(&self) -> bool {
        self.renegotiate
    }

    /// What to do about this attempt. `chance` is from 0 to 1; `time_left` is what remains of the call's time. There is no
    /// point in waiting for longer than that: the attempt's own error says more than that time ran out.
    pub(crate) fn decide(&mut self, attempt: Attempt, chance: f64, time_left: Option<Duration>) -> Decision {
        let Some(wait) = self.wait(attempt, chance) else { return Decision::Return };
        if self.left == 0 || !self.replayable || time_left.is_some_and(|left| wait >= left) {
            return Decision::Return;
        }
        self.left -= 1;
        Decision::RetryAfter(wait)
    }

    fn wait(&self, attempt: Attempt, chance: f64) -> Option<Duration> {
        match attempt {
            Attempt::Answered(status, retry_after) => {
                let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
                let wait = retry_after.filter(|_| busy)?.min(self.max_retry_after);
                let extra = wait.as_secs_f64() * JITTER * chance.clamp(0.0, 1.0);
                let extra = Duration::try_from_secs_f64(extra).unwrap_or(Duration::MAX);
                Some(wait.saturating_add(extra).min(self.max_retry_after))
            }
            Attempt::Failed(fault) => {
                let lost = matches!(fault, TransportFault::Reset | TransportFault::Closed | TransportFault::Http2Lost);
                let late = matches!(fault, TransportFault::ConnectTimeout | TransportFault::Timeout);
                let again = match self.terminal {
                    Terminal::Call => self.safe && lost,
                    Terminal::Stream => false,
                    Terminal::Watch => lost || late,
                };
                again.then_some(AFTER_FAULT)
            }
        }
    }
}

/// When the server wants to be asked again. Only whole seconds count, as for client-go: a date depends on whose clock is
/// right. A number too large to read is a very long time.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
