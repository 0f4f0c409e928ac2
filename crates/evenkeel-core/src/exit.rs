//! [`ExitStatus`]: how a process in a container ended.

use std::fmt;

use crate::{Reason, Status, StatusCause, StatusDetails};

/// The reason of the [`Status`] of a process with another exit code than zero.
const NON_ZERO_EXIT_CODE: &str = "NonZeroExitCode";
/// The cause that carries the exit code.
const EXIT_CODE: &str = "ExitCode";

/// How a process in a container ended: its exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExitStatus(u8);

impl ExitStatus {
    /// The exit code zero.
    pub const SUCCESS: ExitStatus = ExitStatus(0);

    /// Returns the status of a process that exited with this code.
    pub fn exited(code: u8) -> Self {
        ExitStatus(code)
    }

    /// Returns the exit code.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Returns whether the exit code is zero.
    pub fn success(self) -> bool {
        self.0 == 0
    }

    /// Decodes the error channel of an exec or attach session: a [`Status`] in JSON, as since `v4.channel.k8s.io`.
    ///
    /// # Errors
    /// Returns [`ExitStatusError::Failed`] if the server could not run the process, and [`ExitStatusError::Protocol`] if
    /// the bytes are no such `Status`.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExitStatusError> {
        let protocol = |problem: &str| ExitStatusError::Protocol { problem: problem.to_owned() };
        let status: Status = serde_json::from_slice(bytes)
            .map_err(|error| ExitStatusError::Protocol { problem: format!("it is no Status: {error}") })?;
        match &*status.status {
            "Success" => Ok(ExitStatus::SUCCESS),
            "Failure" if status.reason.as_str() == NON_ZERO_EXIT_CODE => {
                let details = status.details.as_ref().ok_or_else(|| protocol("the Status has no details"))?;
                let cause = details.causes.iter().find(|cause| cause.reason == EXIT_CODE);
                let code = &cause.ok_or_else(|| protocol("the Status has no cause ExitCode"))?.message;
                // `parse` accepts a sign.
                let digits = code.bytes().all(|byte| byte.is_ascii_digit());
                code.parse()
                    .ok()
                    .filter(|_| digits)
                    .map(ExitStatus)
                    .ok_or_else(|| protocol("the exit code is no number up to 255"))
            }
            "Failure" => Err(ExitStatusError::Failed(Box::new(status))),
            _ => Err(protocol("the Status is neither Success nor Failure")),
        }
    }

    /// Returns the `Status` that a server sends on the error channel.
    pub fn to_status(self) -> Status {
        let mut status = Status::default();
        if self.success() {
            status.status = "Success".into();
            return status;
        }
        let code = StatusCause { reason: EXIT_CODE.into(), message: self.0.to_string(), field: String::new() };
        status.status = "Failure".into();
        status.message = format!("command terminated with non-zero exit code: exit status {}", self.0);
        status.reason = Reason::from(NON_ZERO_EXIT_CODE);
        status.details = Some(StatusDetails { causes: vec![code], ..StatusDetails::default() });
        status
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.0)
    }
}

/// Why the end of a process is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitStatusError {
    /// The server could not run the process, or lost it.
    #[error("{0}")]
    Failed(Box<Status>),
    /// The server sent something else than the status of a process.
    #[error("the error channel violates its protocol: {problem}")]
    Protocol {
        /// What is wrong. It does not quote the bytes.
        problem: String,
    },
}

#[cfg(test)]
mod tests;
