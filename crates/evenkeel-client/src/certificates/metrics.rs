//! The metrics of certificate managers, under the kubelet's names without its prefix.

use ::metrics::{SharedString, counter, gauge, histogram};
use jiff::Timestamp;

use crate::rest::metrics::{CERTIFICATE_RENEW_ERRORS, CERTIFICATE_ROTATION_AGE, CERTIFICATE_TTL};

/// The metrics of one manager.
#[derive(Debug)]
pub(super) struct ManagerMetrics {
    signer: SharedString,
}

impl ManagerMetrics {
    pub(super) fn new(signer: &str) -> Self {
        ManagerMetrics { signer: SharedString::from_owned(signer.to_owned()) }
    }

    pub(super) fn failed(&self) {
        counter!(CERTIFICATE_RENEW_ERRORS, "signer" => self.signer.clone()).increment(1);
    }

    /// Records that a certificate was replaced which was valid since this time.
    pub(super) fn rotated(&self, valid_since: Timestamp, now: Timestamp) {
        let age = now.duration_since(valid_since).as_secs_f64();
        histogram!(CERTIFICATE_ROTATION_AGE, "signer" => self.signer.clone()).record(age);
    }

    /// Sets the time that is left.
    pub(super) fn show_ttl(&self, expires: Option<Timestamp>, now: Timestamp) {
        let left = expires.map_or(f64::INFINITY, |at| at.duration_since(now).as_secs_f64());
        gauge!(CERTIFICATE_TTL, "signer" => self.signer.clone()).set(left);
    }
}
