//! [`RingSettings`]: the knobs of a ring and their validation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest name of a ring: the names of its Leases contain it.
pub(crate) const MAX_NAME: usize = 40;

/// The field whose hash decides which member works on an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardBy {
    /// The namespace: objects of one namespace have one owner. The API server can filter by it.
    #[default]
    Namespace,
    /// The uid. Spreads the objects of one namespace. The API server can filter by it.
    Uid,
    /// `namespace/name`. The API server cannot filter by it.
    Key,
}

impl fmt::Display for ShardBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShardBy::Namespace => "namespace",
            ShardBy::Uid => "uid",
            ShardBy::Key => "key",
        })
    }
}

/// The knobs of a ring.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RingSettings {
    pub(crate) shard_by: ShardBy,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) grace: Duration,
    pub(crate) drain_limit: Duration,
    pub(crate) cancel_on_move: bool,
    pub(crate) settle: Duration,
    pub(crate) slices_per_member: usize,
    pub(crate) imbalance: f64,
    pub(crate) capacity: u32,
}

/// Why a ring cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RingConfigError {
    /// A member would still work when its slices may be given away.
    #[error(
        "renew deadline ({renew_deadline:?}) and grace ({grace:?}) together must be less than the lease duration ({lease_duration:?})"
    )]
    LeaseDurationTooShort {
        /// The lease duration.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
        /// The grace.
        grace: Duration,
    },
    /// Fewer than three heartbeats fit into the renew deadline.
    #[error("three heartbeats ({heartbeat:?} each) must fit into the renew deadline ({renew_deadline:?})")]
    HeartbeatTooSlow {
        /// The time between two heartbeats.
        heartbeat: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
    /// A Lease has whole seconds that fit into 32 bits.
    #[error(
        "the lease duration ({lease_duration:?}) must be a whole number of seconds that a Lease can hold, at least one"
    )]
    NotWholeSeconds {
        /// The lease duration.
        lease_duration: Duration,
    },
    /// A value is zero.
    #[error("the {what} must not be zero")]
    Zero {
        /// The name of the setting.
        what: &'static str,
    },
    /// The allowed imbalance is no number above zero.
    #[error("the imbalance ({imbalance}) must be a number above zero")]
    Imbalance {
        /// The setting.
        imbalance: f64,
    },
    /// The names of Leases contain the name of the ring.
    #[error("the name of the ring {name:?} must be a lower-case DNS label of at most {MAX_NAME} characters")]
    Name {
        /// The name.
        name: String,
    },
    /// The name of a Lease contains the identity.
    #[error(
        "the identity {identity:?} must have lower-case letters, digits, `-` and `.` only, and start with a letter or digit"
    )]
    Identity {
        /// The identity.
        identity: String,
    },
    /// Slices per member are bounded by the size of the table.
    #[error("{slices} slices per member; at most 16 are possible")]
    TooManySlices {
        /// The setting.
        slices: usize,
    },
}

impl Default for RingSettings {
    fn default() -> Self {
        RingSettings {
            shard_by: ShardBy::default(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            grace: Duration::from_secs(2),
            drain_limit: Duration::from_secs(30),
            cancel_on_move: false,
            settle: Duration::from_secs(5),
            slices_per_member: 8,
            imbalance: 0.25,
            capacity: 1,
        }
    }
}

impl RingSettings {
    /// Validates the knobs, and the names that Leases are made of.
    pub(crate) fn check(&self, name: &str, identity: &str) -> Result<(), RingConfigError> {
        let RingSettings { lease_duration, renew_deadline, heartbeat, grace, .. } = *self;
        let durations = [
            ("renew deadline", renew_deadline),
            ("heartbeat", heartbeat),
            ("grace", grace),
            ("drain limit", self.drain_limit),
            ("settle time", self.settle),
        ];
        if let Some((what, _)) = durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            return Err(RingConfigError::Zero { what });
        }
        if self.slices_per_member == 0 {
            return Err(RingConfigError::Zero { what: "number of slices per member" });
        }
        let fits = lease_duration.subsec_nanos() == 0 && i32::try_from(lease_duration.as_secs()).is_ok();
        if !fits || lease_duration.is_zero() {
            return Err(RingConfigError::NotWholeSeconds { lease_duration });
        }
        if renew_deadline.checked_add(grace).is_none_or(|end| end >= lease_duration) {
            return Err(RingConfigError::LeaseDurationTooShort { lease_duration, renew_deadline, grace });
        }
        if heartbeat.checked_mul(3).is_none_or(|three| three > renew_deadline) {
            return Err(RingConfigError::HeartbeatTooSlow { heartbeat, renew_deadline });
        }
        if !self.imbalance.is_finite() || self.imbalance <= 0.0 {
            return Err(RingConfigError::Imbalance { imbalance: self.imbalance });
        }
        if self.slices_per_member > 16 {
            return Err(RingConfigError::TooManySlices { slices: self.slices_per_member });
        }
        if name.len() > MAX_NAME || !is_name(name, |byte| byte == b'-') {
            return Err(RingConfigError::Name { name: name.to_owned() });
        }
        if !is_name(identity, |byte| matches!(byte, b'-' | b'.')) {
            return Err(RingConfigError::Identity { identity: identity.to_owned() });
        }
        Ok(())
    }

    /// Returns the settings that all members of a ring must share, as one word.
    pub(crate) fn terms(&self) -> Arc<str> {
        format!("{}/fnv1a64/{}s", self.shard_by, self.lease_duration.as_secs()).into()
    }
}

/// Returns whether a text consists of lower-case letters, digits and, not at its ends, other allowed characters.
fn is_name(text: &str, other: impl Fn(u8) -> bool) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| plain(byte) || other(*byte))
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
}

#[cfg(test)]
mod tests;
