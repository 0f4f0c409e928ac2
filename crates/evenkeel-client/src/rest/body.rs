//! Response bodies: idle timeout, decompression, and reading up to a limit.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::retry::ResponseMode;
use crate::config::Config;
use crate::error::{Error, RequestName};
use crate::transport::limits::IdleTimeoutBody;
use crate::transport::{Body, BodyError, BoxError, TransportError, gzip};

/// The most that is allocated for a body before it arrives: the announced size is not trusted.
const MAX_PREALLOCATED: usize = 1 << 20;

/// Wraps the body of a response: decompresses it, and fails it when nothing arrives for too long. Streams and watches may be
/// idle.
pub(super) fn wrap(
    response: http::Response<Body>,
    request: &RequestName,
    config: &Config,
    mode: ResponseMode,
) -> Result<http::Response<Body>, Error> {
    // There is no body to wait for or to decompress.
    if response.status() == StatusCode::NO_CONTENT {
        return Ok(response);
    }
    let response = match mode {
        ResponseMode::Whole if !is_buffered(response.body()) => {
            let (timeout, host) = (config.connections.body_idle_timeout, config.server.host());
            response.map(|body| Body::new(IdleTimeoutBody::new(body, timeout, host)))
        }
        _ => response,
    };
    // Readers apply the limit of what they read; this one is for bodies without a reader.
    let limit = if mode == ResponseMode::Whole { config.limits.list } else { usize::MAX };
    gzip::decode(response, limit, config.limits.inflation).map_err(|error| rejected(error, request))
}

/// Returns whether the body is completely in memory.
fn is_buffered(body: &Body) -> bool {
    body.try_clone().is_some()
}

/// Converts the error of a body.
pub(super) fn body_error(error: BoxError, request: &RequestName, host: &str) -> Error {
    match error.downcast::<BodyError>() {
        Ok(error) => rejected(*error, request),
        Err(error) => {
            let source = TransportError::from_any(error, host);
            Error::Transport { request: request.clone(), source, previous: None }
        }
    }
}

fn rejected(error: BodyError, request: &RequestName) -> Error {
    let request = request.clone();
    match error {
        BodyError::TooLarge { limit } => {
            Error::TooLarge { request, limit: usize::try_from(limit).unwrap_or(usize::MAX) }
        }
        other => Error::Unreadable { request, problem: other.to_string() },
    }
}

/// Reads a body up to a limit.
pub(super) struct BodyReader<'a> {
    request: &'a RequestName,
    host: &'a str,
    body: Body,
    received: usize,
}

impl<'a> BodyReader<'a> {
    pub(super) fn new(request: &'a RequestName, host: &'a str, body: Body) -> Self {
        BodyReader { request, host, body, received: 0 }
    }

    /// Returns how many bytes have been received.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Reads the next chunk; `None` at the end. More than `limit` bytes in total are an error.
    pub(super) async fn chunk(&mut self, limit: usize) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| body_error(error, self.request, self.host))?;
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

    /// Reads the whole body. A body of one chunk is not copied.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, Error> {
        let announced = self.body.size_hint().lower();
        if announced > limit as u64 {
            return Err(self.too_large(limit));
        }
        let Some(first) = self.chunk(limit).await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk(limit).await? else { return Ok(first) };
        let preallocated = usize::try_from(announced).unwrap_or(usize::MAX).min(MAX_PREALLOCATED);
        let mut all = BytesMut::with_capacity(preallocated.max(first.len() + second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(chunk) = self.chunk(limit).await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// Reads the whole body, or its first `limit` bytes.
    pub(super) async fn prefix(mut self, limit: usize) -> Result<Vec<u8>, Error> {
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
        Error::TooLarge { request: self.request.clone(), limit }
    }
}
