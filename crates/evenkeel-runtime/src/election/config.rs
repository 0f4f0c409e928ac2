//! What may be chosen, and what is refused.

use std::time::Duration;

/// How long others leave a record alone that does not change, unless told otherwise.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader leads after it sent the last renewal that succeeded, unless told otherwise.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two attempts, unless told otherwise.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How much longer than the retry period candidates may wait, as a share of it.
pub const JITTER: f64 = 1.2;
/// How long work may take to end when the elector is stopped, unless told otherwise.
pub const STOP_GRACE: Duration = Duration::from_secs(30);

/// The time that a call gets, whatever the renew deadline.
const SHORTEST_CALL: Duration = Duration::from_secs(1);

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    /// What was asked for. `None` means as long as there is room for.
    pub(crate) grace: Option<Duration>,
    pub(crate) call_timeout: Option<Duration>,
}

/// Why an elector cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A leader would believe that it leads when others no longer do.
    #[error(
        "the lease duration ({lease_duration:?} in whole seconds) must be longer than the renew deadline ({renew_deadline:?})"
    )]
    LeaseDurationTooShort {
        /// The lease duration, as it would be written.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
    /// A leader could not be sure to try twice.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be longer than {JITTER} times the retry period ({retry_period:?})"
    )]
    RenewDeadlineTooShort {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period.
        retry_period: Duration,
    },
    /// A lease says its duration in whole seconds, and none is too few.
    #[error("the lease duration ({lease_duration:?}) must be a second or more: a Lease has whole seconds")]
    SubSecondLease {
        /// The lease duration.
        lease_duration: Duration,
    },
    /// A lease says its duration in 32 bits.
    #[error("the lease duration ({lease_duration:?}) is longer than a Lease can say")]
    LeaseDurationTooLong {
        /// The lease duration.
        lease_duration: Duration,
    },
    /// A time that has to pass is none.
    #[error("the {what} must not be zero")]
    Zero {
        /// Which one.
        what: &'static str,
    },
    /// Work could still be ending while somebody else leads.
    #[error("the grace ({grace:?}) must fit between the renew deadline and the lease duration, which leaves {room:?}")]
    GraceTooLong {
        /// How long work may take to end.
        grace: Duration,
        /// How long it could be at most.
        room: Duration,
    },
    /// Nobody could tell who leads.
    #[error("Lock identity is empty")]
    NoIdentity,
    /// The lease has to be called something.
    #[error("the lease has no name")]
    NoName,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            lease_duration: LEASE_DURATION,
            renew_deadline: RENEW_DEADLINE,
            retry_period: RETRY_PERIOD,
            grace: None,
            call_timeout: None,
        }
    }
}

impl Timing {
    /// The lease duration as others will read it.
    pub(crate) fn written(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// The same, as it is written.
    pub(crate) fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// How long work may take to end after the lease was lost.
    pub(crate) fn grace(&self) -> Duration {
        let room = self.written().saturating_sub(self.renew_deadline);
        self.grace.unwrap_or_else(|| self.retry_period.min(room / 2))
    }

    /// How long one call may take. An answer that comes later than the renew deadline is of no use.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout.unwrap_or_else(|| SHORTEST_CALL.max(self.renew_deadline / 2)).min(self.renew_deadline)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Timing { lease_duration, renew_deadline, retry_period, .. } = *self;
        if lease_duration <= renew_deadline {
            return Err(ConfigError::LeaseDurationTooShort { lease_duration, renew_deadline });
        }
        // Compared as numbers, because a duration that is multiplied can overflow.
        if renew_deadline.as_secs_f64() <= retry_period.as_secs_f64() * JITTER {
            return Err(ConfigError::RenewDeadlineTooShort { renew_deadline, retry_period });
        }
        let zero = [("retry period", Some(retry_period)), ("time limit of a call", self.call_timeout)];
        if let Some((what, _)) = zero.into_iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
            return Err(ConfigError::Zero { what });
        }
        if lease_duration < Duration::from_secs(1) {
            return Err(ConfigError::SubSecondLease { lease_duration });
        }
        if i32::try_from(lease_duration.as_secs()).is_err() {
            return Err(ConfigError::LeaseDurationTooLong { lease_duration });
        }
        // Others wait for the seconds that are written, which may be less than what was asked for.
        if self.written() <= renew_deadline {
            return Err(ConfigError::LeaseDurationTooShort { lease_duration: self.written(), renew_deadline });
        }
        let room = self.written() - renew_deadline;
        match self.grace {
            Some(grace) if grace > room => Err(ConfigError::GraceTooLong { grace, room }),
            _ => Ok(()),
        }
    }
}
