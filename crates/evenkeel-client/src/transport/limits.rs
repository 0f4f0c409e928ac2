//! The idle timeout of response bodies, and the errors of rejected ones.
//!
//! Rejecting a body is an error; dropping the body closes its connection or resets its stream.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::Body;
use super::error::{BoxError, TransportError, TransportFault};

/// Why a received body was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It exceeds the size limit.
    #[error("the response exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It exceeds the inflation limit: most likely a decompression bomb.
    #[error("the response exceeds {limit} times its compressed size, which is the limit")]
    Inflated {
        /// The limit as a factor of the compressed size.
        limit: u64,
    },
    /// It has an encoding that was not requested.
    #[error("the response is encoded as {encoding:?}; only gzip is supported")]
    Encoding {
        /// The encoding, printable and truncated.
        encoding: String,
    },
    /// It is not valid gzip.
    #[error("the response is not valid gzip")]
    Corrupt {
        /// What is wrong with it.
        source: io::Error,
    },
}

/// A body with an idle timeout.
///
/// The timer runs only while the reader waits for bytes: a slow reader is not the server's fault.
pub(crate) struct IdleTimeoutBody {
    body: Body,
    host: Box<str>,
    patience: Duration,
    /// Created on the first wait, then reused.
    silence: Option<Pin<Box<Sleep>>>,
    /// Whether the timer runs.
    waiting: bool,
}

impl IdleTimeoutBody {
    /// Wraps a response body of `host` with this idle timeout.
    pub(crate) fn new(body: Body, patience: Duration, host: &str) -> Self {
        IdleTimeoutBody { body, host: host.into(), patience, silence: None, waiting: false }
    }
}

impl HttpBody for IdleTimeoutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.waiting = false;
            return Poll::Ready(frame);
        }
        let silence = match &mut this.silence {
            Some(silence) => {
                if !this.waiting
                    && let Some(end) = Instant::now().checked_add(this.patience)
                {
                    silence.as_mut().reset(end);
                }
                silence
            }
            none => none.insert(Box::pin(tokio::time::sleep(this.patience))),
        };
        this.waiting = true;
        ready!(silence.as_mut().poll(context));
        this.waiting = false;
        Poll::Ready(Some(Err(TransportError::bare(TransportFault::Timeout, &this.host).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
