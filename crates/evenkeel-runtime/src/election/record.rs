//! [`Record`]: what a lock says of who leads.

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// What a lock says of who leads: the spec of a Lease, without the options.
///
/// Times have whole microseconds, because that is what an API server keeps. They are written for people and other programs to
/// read. The elector itself never compares them with a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who leads. Empty if nobody does.
    pub holder: String,
    /// For how long, from when they see it, others leave a record alone that does not change. Whole seconds.
    pub lease_seconds: i32,
    /// When the holder began to lead, by its own clock.
    pub acquire_time: Option<Timestamp>,
    /// When the holder wrote this, by its own clock.
    pub renew_time: Option<Timestamp>,
    /// The number of the term. Each one has a higher number than the one before.
    pub transitions: i32,
    /// How a coordinated election chooses.
    pub strategy: String,
    /// Whom a coordinated election wants to lead instead.
    pub preferred_holder: String,
}

/// A record, and the version of the object that it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What it says.
    pub record: Record,
    /// The resource version, without which it cannot be replaced.
    pub version: String,
}

impl Record {
    /// Whether nobody holds the lock.
    pub fn is_free(&self) -> bool {
        self.holder.is_empty()
    }

    /// Reads the spec of a Lease. What is not there reads as empty or zero.
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

    /// The spec of a Lease that says this. Strategy and preferred holder are only there if they say something.
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

/// The time that an API server would keep.
pub(super) fn whole_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// A time to write that is not the one which stands there already: a server that is sent what it has makes no new version, and
/// then nobody would see that there was a renewal.
pub(super) fn unlike(time: Timestamp, written: Option<Timestamp>) -> Timestamp {
    if written == Some(time) {
        return time.checked_add(1.microsecond()).or_else(|_| time.checked_sub(1.microsecond())).unwrap_or(time);
    }
    time
}
