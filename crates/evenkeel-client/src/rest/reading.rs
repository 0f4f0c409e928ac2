//! Bodies of answers, read up to a limit.

use bytes::{Bytes, BytesMut};
use http::{Response, response};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::answer::Answer;
use super::content::body_error;
use crate::error::{CallName, Error};
use crate::transport::Body;

/// What is set aside for a body before any of it has come. What a server says of its size is not to be believed.
const MOST_AHEAD: usize = 1 << 20;

/// A body that is read up to a limit.
pub(crate) struct Reading<'a> {
    call: &'a CallName,
    host: &'a str,
    body: Body,
    received: usize,
}

impl<'a> Reading<'a> {
    /// The parts of a success, and its body. Anything else is the error that it stands for, of which no more is read than
    /// `limit`; one that is larger than that is still that error.
    pub(crate) async fn success(
        call: &'a CallName,
        host: &'a str,
        response: Response<Body>,
        limit: usize,
    ) -> Result<(response::Parts, Self), Error> {
        let (parts, body) = response.into_parts();
        let reading = Reading { call, host, body, received: 0 };
        if parts.status.is_success() {
            return Ok((parts, reading));
        }
        let body = match reading.whole(limit).await {
            Ok(body) => body,
            Err(Error::TooLarge { .. }) => Bytes::new(),
            Err(error) => return Err(error),
        };
        Err(Answer::failure(call.clone(), &parts, &body))
    }

    pub(crate) fn into_body(self) -> Body {
        self.body
    }

    /// How many bytes have come.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// The next bytes; `None` at the end. More than `limit` bytes in all are an error.
    pub(crate) async fn chunk(&mut self, limit: usize) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| body_error(error, self.call, self.host))?;
            if let Ok(data) = frame.into_data() {
                self.received += data.len();
                if self.received > limit {
                    return Err(self.too_large(limit));
                }
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// All of it. A body that comes in one piece is not copied.
    pub(crate) async fn whole(mut self, limit: usize) -> Result<Bytes, Error> {
        let announced = self.body.size_hint().lower();
        if announced > limit as u64 {
            return Err(self.too_large(limit));
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

    fn too_large(&self, limit: usize) -> Error {
        Error::TooLarge { call: self.call.clone(), limit }
    }
}
