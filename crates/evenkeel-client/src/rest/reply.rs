//! [`Reply`]: an answer whose head is here and whose body is yet to be read.

use bytes::{Bytes, BytesMut};
use http::response;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::timeout_at;

use super::answer::Answer;
use super::exchange::Deadline;
use crate::error::{CallName, Error};
use crate::transport::{Body, TransportError};

/// What is set aside for a body before any of it has come. What a server says of its size is not to be believed.
const MOST_AHEAD: usize = 1 << 20;

/// An answer whose head is here. Its body is read within the time that is left for the call, up to a limit.
pub(crate) struct Reply {
    pub(crate) call: CallName,
    pub(crate) parts: response::Parts,
    pub(crate) body: Body,
    host: Box<str>,
    deadline: Option<Deadline>,
    previous: Option<Box<Error>>,
    received: usize,
}

impl Reply {
    pub(crate) fn new(
        call: CallName,
        host: &str,
        parts: response::Parts,
        body: Body,
        deadline: Option<Deadline>,
        previous: Option<Box<Error>>,
    ) -> Self {
        Reply { call, parts, body, host: host.into(), deadline, previous, received: 0 }
    }

    /// The next bytes of the body; `None` at its end. More than `limit` bytes in all are an error.
    pub(crate) async fn chunk(&mut self, limit: usize) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = match self.deadline {
                None => self.body.frame().await,
                Some(deadline) => match timeout_at(deadline.at, self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        let (limit, previous) = (deadline.limit, self.previous.take());
                        return Err(Error::Timeout { call: self.call.clone(), limit, previous });
                    }
                },
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Error::Transport {
                call: self.call.clone(),
                source: TransportError::from_any(error, &self.host),
                previous: self.previous.take(),
            })?;
            if let Ok(data) = frame.into_data() {
                self.received += data.len();
                if self.received > limit {
                    return Err(Error::TooLarge { call: self.call.clone(), limit });
                }
                return Ok(Some(data));
            }
        }
    }

    /// How many bytes of the body have come.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// All of the body. A body that comes in one piece is not copied.
    pub(crate) async fn whole(&mut self, limit: usize) -> Result<Bytes, Error> {
        let announced = self.body.size_hint().lower();
        if announced > limit as u64 {
            return Err(Error::TooLarge { call: self.call.clone(), limit });
        }
        let Some(first) = self.chunk(limit).await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk(limit).await? else { return Ok(first) };
        let ahead = usize::try_from(announced).unwrap_or(usize::MAX).min(MOST_AHEAD);
        let mut all = BytesMut::with_capacity(ahead.max(first.len() + second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(chunk) = self.chunk(limit).await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// This answer, if it is a success; if not, the error that it stands for. An error that is too large to be read whole
    /// is still that error.
    pub(crate) async fn success(mut self, limit: usize) -> Result<Self, Error> {
        if self.parts.status.is_success() {
            return Ok(self);
        }
        let body = match self.whole(limit).await {
            Ok(body) => body,
            Err(Error::TooLarge { .. }) => Bytes::new(),
            Err(error) => return Err(error),
        };
        Err(Answer::failure(self.call, &self.parts, &body))
    }
}
