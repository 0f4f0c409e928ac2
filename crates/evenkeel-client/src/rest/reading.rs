//! Bodies of answers, read up to a limit.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;

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
    pub(crate) fn new(call: &'a CallName, host: &'a str, body: Body) -> Self {
        Reading { call, host, body, received: 0 }
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

    /// All of it, or as much as there may be.
    pub(crate) async fn beginning(mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut read = Vec::new();
        loop {
            match self.chunk(limit).await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk),
                Ok(None) | Err(Error::TooLarge { .. }) => return Ok(read),
                Err(error) => return Err(error),
            }
        }
    }

    fn too_large(&self, limit: usize) -> Error {
        Error::TooLarge { call: self.call.clone(), limit }
    }
}
