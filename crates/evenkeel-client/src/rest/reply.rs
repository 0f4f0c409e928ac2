//! [`Reply`]: an answer whose head is here and whose body is yet to be read, within what is left of the call's time.

use std::time::Duration;

use http::Response;
use tokio::time::{Instant, timeout_at};

use crate::error::{CallName, Error};
use crate::transport::Body;
use crate::wire::Form;

/// An answer whose head is here.
pub(crate) struct Reply {
    pub(crate) response: Response<Body>,
    /// The form that was asked for in the end.
    pub(crate) form: Form,
    pub(crate) time: TimeLeft,
}

/// When a call has to be over, and how long that was in the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) limit: Duration,
}

impl Deadline {
    /// So much time from now on; `None` if that is for ever.
    pub(crate) fn after(limit: Duration) -> Option<Self> {
        Instant::now().checked_add(limit).map(|at| Deadline { at, limit })
    }
}

/// The time that is left to read an answer.
#[derive(Debug)]
pub(crate) struct TimeLeft {
    pub(crate) call: CallName,
    pub(crate) deadline: Option<Deadline>,
    /// The error of the attempt before, if there was one. Should reading fail, it is part of the story.
    pub(crate) previous: Option<Box<Error>>,
}

impl TimeLeft {
    /// Reads, until time is up.
    pub(crate) async fn read<T>(self, reading: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let result = match self.deadline {
            None => reading.await,
            Some(deadline) => match timeout_at(deadline.at, reading).await {
                Ok(result) => result,
                Err(_) => Err(Error::Timeout { call: self.call, limit: deadline.limit, previous: None }),
            },
        };
        result.map_err(|error| after(error, self.previous))
    }
}

/// The error with the one of the attempt before, if it has room for it and does not say the same.
pub(crate) fn after(mut error: Error, before: Option<Box<Error>>) -> Error {
    let Some(before) = before.filter(|before| before.to_string() != error.to_string()) else { return error };
    if let Error::Transport { previous, .. } | Error::Timeout { previous, .. } | Error::RateLimited { previous, .. } =
        &mut error
    {
        *previous = Some(before);
    }
    error
}
