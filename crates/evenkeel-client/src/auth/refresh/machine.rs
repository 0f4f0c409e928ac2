//! [`RefreshState`]: when a credential is used, refreshed and given up. Sans-IO: time and randomness are arguments.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_base::Backoff;
use http::HeaderValue;
use tokio::time::Instant;

use crate::auth::error::CredentialProblem;

/// The pause after failures, or after rejections, in a row.
const PAUSE: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));
/// The part of its lifetime at whose end a credential is refreshed ahead of its expiry.
const AHEAD: u32 = 5;
/// The longest time ahead of the expiry.
const LONGEST_AHEAD: Duration = Duration::from_secs(5 * 60);
/// The shortest time for which a credential is used, so that one that expires at once does not cause a refresh for every
/// request.
const SHORTEST: Duration = Duration::from_secs(1);
/// The age at which a rejection is no longer taken for the continuation of the previous ones.
const STREAK: Duration = Duration::from_secs(10 * 60);

/// A credential in use.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    /// The value of `Authorization`; `None` if the credential is a client certificate only.
    pub(crate) authorization: Option<HeaderValue>,
    /// Identifies this credential among those of its refresher. The first is 1.
    pub(crate) generation: u64,
}

/// A credential that a source returned.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) authorization: Option<HeaderValue>,
    /// The time until its expiry; `None` if it is used until the server rejects it.
    pub(crate) lifetime: Option<Duration>,
}

/// What a request does.
#[derive(Debug)]
pub(super) enum RefreshDecision {
    /// Use this credential.
    Use(Credential),
    /// Use this credential, and start a refresh without waiting for it.
    UseAndRefresh(Credential),
    /// Start a refresh and wait for it.
    Refresh,
    /// Wait for the refresh in flight.
    Wait,
    /// Fail: the last refresh failed, and the next one is not due.
    Fail(Arc<CredentialProblem>),
}

/// The current credential and the last failure.
#[derive(Debug, Default)]
pub(super) struct RefreshState {
    current: Option<Current>,
    failure: Option<Failure>,
    in_flight: bool,
    generation: u64,
}

#[derive(Debug)]
struct Current {
    credential: Credential,
    obtained: Instant,
    refresh_at: Option<Instant>,
    expires: Option<Instant>,
    /// Whether the server rejected it.
    rejected: bool,
    /// How many of its predecessors were rejected in a row.
    streak: u32,
}

#[derive(Debug)]
struct Failure {
    problem: Arc<CredentialProblem>,
    retry_at: Instant,
    count: u32,
}

impl Current {
    fn is_usable(&self, now: Instant) -> bool {
        !self.rejected && self.expires.is_none_or(|expires| now <= expires)
    }
}

impl RefreshState {
    /// Decides for a request. The caller of a decision to refresh must call [`finish`](Self::finish) or
    /// [`abort`](Self::abort); until then no other refresh starts.
    pub(super) fn decide(&mut self, now: Instant) -> RefreshDecision {
        let is_due = self.failure.as_ref().is_none_or(|failure| now >= failure.retry_at);
        if let Some(current) = self.current.as_ref().filter(|current| current.is_usable(now)) {
            let credential = current.credential.clone();
            if is_due && !self.in_flight && current.refresh_at.is_some_and(|at| now >= at) {
                self.in_flight = true;
                return RefreshDecision::UseAndRefresh(credential);
            }
            return RefreshDecision::Use(credential);
        }
        if self.in_flight {
            return RefreshDecision::Wait;
        }
        match &self.failure {
            Some(failure) if !is_due => RefreshDecision::Fail(Arc::clone(&failure.problem)),
            _ => {
                self.in_flight = true;
                RefreshDecision::Refresh
            }
        }
    }

    /// Ends a refresh. `random` is from 0 to 1.
    pub(super) fn finish(&mut self, outcome: Result<Fetched, Arc<CredentialProblem>>, random: f64, now: Instant) {
        self.in_flight = false;
        match outcome {
            Ok(Fetched { authorization, lifetime }) => {
                self.failure = None;
                self.generation += 1;
                let streak = match &self.current {
                    Some(old) if old.rejected => old.streak.saturating_add(1),
                    _ => 0,
                };
                let lifetime = lifetime.map(|lifetime| lifetime.max(SHORTEST));
                // An expiry that is too far away to be represented is none.
                let expires = lifetime.and_then(|lifetime| now.checked_add(lifetime));
                let refresh_at = lifetime
                    .zip(expires)
                    .map(|(lifetime, expires)| (expires - ahead(lifetime, random)).max(now + SHORTEST));
                let credential = Credential { authorization, generation: self.generation };
                self.current =
                    Some(Current { credential, obtained: now, refresh_at, expires, rejected: false, streak });
            }
            Err(problem) => {
                let count = self.failure.as_ref().map_or(0, |failure| failure.count).saturating_add(1);
                self.failure = Some(Failure { problem, retry_at: now + PAUSE.wait(count), count });
            }
        }
    }

    /// Ends a refresh that was cancelled. The next request starts another one.
    pub(super) fn abort(&mut self) {
        self.in_flight = false;
    }

    /// Reports that the server rejected the credential of this generation. Returns whether to send the request again:
    /// with a newer credential that exists already, or with one that the next [`decide`](Self::decide) obtains.
    ///
    /// A server that rejects every credential causes one refresh per pause. In between the credential is kept, so that
    /// requests return the server's error.
    pub(super) fn reject(&mut self, generation: u64, now: Instant) -> bool {
        let Some(current) = &mut self.current else { return false };
        if current.credential.generation != generation {
            return current.credential.generation > generation;
        }
        if current.rejected {
            return true;
        }
        let age = now.saturating_duration_since(current.obtained);
        if age >= STREAK {
            current.streak = 0;
        }
        current.rejected = current.streak == 0 || age >= PAUSE.wait(current.streak);
        current.rejected
    }
}

/// Returns how long before its expiry a credential is refreshed: between half of the maximum and all of it, so that
/// processes that started together do not refresh together.
fn ahead(lifetime: Duration, random: f64) -> Duration {
    let most = (lifetime / AHEAD).min(LONGEST_AHEAD);
    most.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
