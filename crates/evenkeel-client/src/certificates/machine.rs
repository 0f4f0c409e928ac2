//! [`RotationState`]: when a certificate is requested. Sans-IO: time and randomness are arguments.

use std::time::Duration;

use evenkeel_base::Backoff;
use jiff::{SignedDuration, Timestamp};

use super::template::{CertificateFacts, CertificateTemplate};

/// The pause after failures in a row. client-go's.
const FAILED: Backoff = Backoff::doubling(Duration::from_secs(2), Duration::from_secs(32));
/// The pause after requests that were refused in a row: each one is a new object that a person or a signer looks at.
const REFUSED: Backoff = Backoff::doubling(Duration::from_secs(60), Duration::from_secs(30 * 60));
/// The largest random part of a pause.
const JITTER: f64 = 0.1;
/// The earliest part of its lifetime at which a certificate is rotated, and the random part after it. client-go's.
const ROTATED_AFTER: (f64, f64) = (0.7, 0.2);
/// The shortest time between two certificates, unless they are valid for less than twice that.
const SHORTEST_USE: Duration = Duration::from_secs(60);

/// What the manager does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RotationDecision {
    /// Request a certificate.
    Request,
    /// Decide again after this time.
    Sleep(Duration),
}

/// How an attempt to obtain a certificate failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// The request was denied, or its certificate is unusable. The next attempt makes another request.
    Refused,
    /// Anything else. The next attempt continues with the same request.
    Passing,
}

/// The current certificate and the last failures.
#[derive(Debug)]
pub(super) struct RotationState {
    template: CertificateTemplate,
    current: Option<Current>,
    /// No request starts earlier.
    not_before: Timestamp,
    failures: u32,
    refusals: u32,
}

#[derive(Debug)]
struct Current {
    facts: CertificateFacts,
    rotate_at: Timestamp,
    /// The template that it was requested for; `None` if it is from the store.
    requested: Option<CertificateTemplate>,
}

impl RotationState {
    /// Starts with the certificate of the store. `random` is from 0 to 1.
    pub(super) fn new(template: CertificateTemplate, stored: Option<CertificateFacts>, random: f64) -> Self {
        let current = stored.map(|facts| Current { rotate_at: rotate_at(&facts, random), facts, requested: None });
        RotationState { template, current, not_before: Timestamp::MIN, failures: 0, refusals: 0 }
    }

    pub(super) fn template(&self) -> &CertificateTemplate {
        &self.template
    }

    /// Returns the current certificate if it has not expired.
    pub(super) fn valid(&self, now: Timestamp) -> Option<&CertificateFacts> {
        self.current.as_ref().map(|current| &current.facts).filter(|facts| now < facts.not_after)
    }

    /// Replaces the template. A certificate that does not satisfy it is rotated at once.
    pub(super) fn set_template(&mut self, template: CertificateTemplate) {
        if self.template != template {
            self.template = template;
            self.not_before = Timestamp::MIN;
            (self.failures, self.refusals) = (0, 0);
        }
    }

    pub(super) fn decide(&self, now: Timestamp) -> RotationDecision {
        let due = match &self.current {
            Some(current) if now < current.facts.not_after && self.is_wanted(current) => current.rotate_at,
            _ => now,
        };
        match Duration::try_from(due.max(self.not_before).duration_since(now)) {
            Ok(wait) if !wait.is_zero() => RotationDecision::Sleep(wait),
            _ => RotationDecision::Request,
        }
    }

    /// Records a new certificate, which was requested for the current template. `random` is from 0 to 1.
    pub(super) fn installed(&mut self, facts: CertificateFacts, now: Timestamp, random: f64) {
        let left = Duration::try_from(facts.not_after.duration_since(now)).unwrap_or_default();
        self.not_before = later(now, SHORTEST_USE.min(left / 2));
        (self.failures, self.refusals) = (0, 0);
        let requested = Some(self.template.clone());
        self.current = Some(Current { rotate_at: rotate_at(&facts, random), facts, requested });
    }

    /// Records a failed attempt. Returns the pause until the next one. `random` is from 0 to 1.
    pub(super) fn failed(&mut self, failure: AttemptFailure, now: Timestamp, random: f64) -> Duration {
        let (backoff, count) = match failure {
            AttemptFailure::Refused => (REFUSED, &mut self.refusals),
            AttemptFailure::Passing => (FAILED, &mut self.failures),
        };
        *count = count.saturating_add(1);
        let pause = backoff.wait(*count).mul_f64(1.0 + JITTER * random.clamp(0.0, 1.0));
        self.not_before = later(now, pause);
        pause
    }

    /// A signer may issue something else than requested. Requesting the same again would not change that.
    fn is_wanted(&self, current: &Current) -> bool {
        current.requested.as_ref() == Some(&self.template) || self.template.is_satisfied_by(&current.facts)
    }
}

/// Returns when to rotate: after 70 to 90 percent of the lifetime, so that machines that were set up together do not
/// rotate together.
fn rotate_at(facts: &CertificateFacts, random: f64) -> Timestamp {
    let lifetime = Duration::try_from(facts.not_after.duration_since(facts.not_before)).unwrap_or_default();
    later(facts.not_before, lifetime.mul_f64(ROTATED_AFTER.0 + ROTATED_AFTER.1 * random.clamp(0.0, 1.0)))
}

/// A time that is too far away to be represented is the last one.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| time.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}
