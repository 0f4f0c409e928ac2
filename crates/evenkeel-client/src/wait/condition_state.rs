//! [`ConditionState`]: what a condition says about an object, and [`WaitError`].

use evenkeel_core::Status;

use crate::discovery::DiscoveryError;
use crate::error::Error;

/// What a condition says about an object. A boolean is one as well: met, or pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionState {
    /// The condition is met.
    Met,
    /// The condition is not met, and may be later.
    Pending,
    /// The condition is not met, and waiting cannot change that; with the reason.
    Never(String),
}

impl ConditionState {
    /// Returns whether the condition is met.
    pub fn is_met(&self) -> bool {
        *self == ConditionState::Met
    }

    /// Returns whether the condition is not met, and may be later.
    pub fn is_pending(&self) -> bool {
        *self == ConditionState::Pending
    }
}

impl From<bool> for ConditionState {
    fn from(met: bool) -> Self {
        if met { ConditionState::Met } else { ConditionState::Pending }
    }
}

/// Why a wait has ended without its condition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The condition can no longer be met.
    #[error("{object} can no longer meet the condition: {reason}")]
    Never {
        /// The kind and key of the object.
        object: String,
        /// Why.
        reason: String,
    },
    /// A request failed, and retrying cannot help.
    #[error(transparent)]
    Request(#[from] Error),
    /// Discovery failed, and retrying cannot help.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl WaitError {
    /// Returns the server's status, if the server rejected a request.
    pub fn status(&self) -> Option<&Status> {
        match self {
            WaitError::Request(error) => error.status(),
            WaitError::Discovery(DiscoveryError::Api(error)) => error.status(),
            _ => None,
        }
    }
}
