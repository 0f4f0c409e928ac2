//! Timing of an election and its validation.

use std::time::Duration;

/// Default time for which candidates leave an unchanged record alone.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Default time for which a leader leads after it sent the last successful renewal.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Default time between two attempts.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Jitter of a candidate's retry period, as a fraction of it.
pub const JITTER: f64 = 1.2;
/// Default time that work has to finish when the elector is stopped.
pub const STOP_GRACE: Duration = Duration::from_secs(30);

/// The shortest default timeout of a request, whatever the renew deadline.
const SHORTEST_CALL: Duration = Duration::from_secs(1);

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
    /// The configured grace. `None`: derived from the other durations.
    pub(crate) grace: Option<Duration>,
    pub(crate) call_timeout: Option<Duration>,
}

/// Why an elector cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A leader would still lead after candidates may take over.
    #[error(
        "the lease duration ({lease_duration:?} in whole seconds) must be longer than the renew deadline ({renew_deadline:?})"
    )]
    LeaseDurationTooShort {
        /// The lease duration as written to the Lease.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
    /// A leader could not renew twice before the deadline.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be longer than {JITTER} times the retry period ({retry_period:?})"
    )]
    RenewDeadlineTooShort {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period.
        retry_period: Duration,
    },
    /// A Lease stores its duration in whole seconds; the duration is less than one.
    #[error("the lease duration ({lease_duration:?}) must be a second or more: a Lease has whole seconds")]
    SubSecondLease {
        /// The lease duration.
        lease_duration: Duration,
    },
    /// A Lease stores its duration in 32 bits; the duration does not fit.
    #[error("the lease duration ({lease_duration:?}) is longer than a Lease can say")]
    LeaseDurationTooLong {
        /// The lease duration.
        lease_duration: Duration,
    },
    /// A duration is zero.
    #[error("the {what} must not be zero")]
    Zero {
        /// The name of the duration.
        what: &'static str,
    },
    /// Work could still run while another process leads.
    #[error("the grace ({grace:?}) must fit between the renew deadline and the lease duration, which leaves {room:?}")]
    GraceTooLong {
        /// The configured grace.
        grace: Duration,
        /// The longest grace that is allowed.
        room: Duration,
    },
    /// The identity is empty.
    #[error("Lock identity is empty")]
    NoIdentity,
    /// The lease name is empty.
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
    /// Returns the lease duration in whole seconds, as candidates read it.
    pub(crate) fn written(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// Returns the lease duration as the Lease stores it.
    pub(crate) fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// Returns how long work may take to finish after the lease was lost.
    pub(crate) fn grace(&self) -> Duration {
        let room = self.written().saturating_sub(self.renew_deadline);
        self.grace.unwrap_or_else(|| self.retry_period.min(room / 2))
    }

    /// Returns the timeout of one request. A response after the renew deadline is useless.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout.unwrap_or_else(|| SHORTEST_CALL.max(self.renew_deadline / 2)).min(self.renew_deadline)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Timing { lease_duration, renew_deadline, retry_period, .. } = *self;
        if lease_duration <= renew_deadline {
            return Err(ConfigError::LeaseDurationTooShort { lease_duration, renew_deadline });
        }
        // Compared as numbers: multiplying a duration can overflow.
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
        // Candidates wait for the whole seconds that are written, which may be less than the configured duration.
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

#[cfg(test)]
mod tests;
