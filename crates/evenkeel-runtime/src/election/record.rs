//! [`Record`]: the content of a lock.

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The content of a lock: the spec of a Lease with plain fields.
///
/// Times have microsecond precision, as the API server stores them. They are informational: the elector never compares
/// them with a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The leader. Empty if there is none.
    pub holder: String,
    /// How long candidates leave an unchanged record alone after they have seen it, in whole seconds.
    pub lease_seconds: i32,
    /// When the term started, by the holder's clock.
    pub acquire_time: Option<Timestamp>,
    /// When the record was written, by the holder's clock.
    pub renew_time: Option<Timestamp>,
    /// The number of the term. It increases with each term.
    pub transitions: i32,
    /// The strategy of a coordinated election.
    pub strategy: String,
    /// The holder that a coordinated election prefers.
    pub preferred_holder: String,
}

/// A record and the version of the object that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedRecord {
    /// The record.
    pub record: Record,
    /// The resource version, which an update must name.
    pub version: String,
}

impl Record {
    /// Returns whether the lock has no holder.
    pub fn is_free(&self) -> bool {
        self.holder.is_empty()
    }

    /// Reads the spec of a Lease. Missing fields are empty or zero.
    pub fn from_spec(spec: &LeaseSpec) -> Self {
        let time = |time: &Option<MicroTime>| time.as_ref().map(|time| whole_microseconds(time.0));
        Record {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            lease_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquire_time: time(&spec.acquire_time),
            renew_time: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
            strategy: spec.strategy.clone().unwrap_or_default(),
            preferred_holder: spec.preferred_holder.clone().unwrap_or_default(),
        }
    }

    /// Returns the spec of a Lease. Strategy and preferred holder are omitted if empty.
    pub fn to_spec(&self) -> LeaseSpec {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(self.lease_seconds),
            acquire_time: self.acquire_time.map(MicroTime),
            renew_time: self.renew_time.map(MicroTime),
            lease_transitions: Some(self.transitions),
            strategy: text(&self.strategy),
            preferred_holder: text(&self.preferred_holder),
        }
    }
}

/// Truncates a time to the precision of the API server.
pub(super) fn whole_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// Returns a time that differs from the stored one: an update that changes nothing creates no new version, and
/// candidates would not observe the renewal.
pub(super) fn unlike(time: Timestamp, written: Option<Timestamp>) -> Timestamp {
    if written == Some(time) {
        return time.checked_add(1.microsecond()).or_else(|_| time.checked_sub(1.microsecond())).unwrap_or(time);
    }
    time
}
