//! [`RequestError`]: why a request ends without what it asked for.

use evenkeel_core::Status;

use crate::outbound::OutboundCall;

/// Why a request ends before it has written anything.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The request is refused.
    Refused(Box<Status>),
    /// The request needs the results of these calls, and then runs again.
    NeedsCalls(Vec<OutboundCall>),
}

impl RequestError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, RequestError::Refused(status) if status.is_not_found())
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        matches!(self, RequestError::Refused(status) if status.is_already_exists())
    }
}

impl From<Status> for RequestError {
    fn from(status: Status) -> Self {
        RequestError::Refused(Box::new(status))
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestError::Refused(status) => status.fmt(f),
            RequestError::NeedsCalls(calls) => write!(f, "{} outbound calls are needed", calls.len()),
        }
    }
}
