//! How silent the body of an answer may be, and what is wrong with bodies that are not accepted.
//!
//! A body that is not accepted is an error, and dropping it closes its connection or resets its stream, so that nothing
//! more of it comes.

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

/// Why the bytes of an answer were not accepted, though they came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// There are more than are allowed.
    #[error("the answer has more than {limit} bytes, which is the limit")]
    TooLarge {
        /// How many are allowed.
        limit: u64,
    },
    /// They are so many more than were sent that it can only be an attack.
    #[error("the answer is more than {limit} times as large as its compressed form, which is the limit")]
    Inflated {
        /// How many times larger it may be.
        limit: u64,
    },
    /// They are encoded in a way that was not asked for.
    #[error("the answer is encoded as {encoding:?}, and only gzip is understood")]
    Encoding {
        /// How, as far as it can be printed; cut if it is long.
        encoding: String,
    },
    /// They are no gzip.
    #[error("the answer says it is gzip, and is not")]
    Corrupt {
        /// What is wrong with them.
        source: io::Error,
    },
}

/// A body that is silent for at most so long.
///
/// The clock runs only while somebody waits for bytes: a reader who takes his time is not the server's fault.
pub(crate) struct Talkative {
    body: Body,
    host: Box<str>,
    patience: Duration,
    /// Made when it is first waited for, then used again and again.
    silence: Option<Pin<Box<Sleep>>>,
    /// Whether the clock runs.
    waiting: bool,
}

impl Talkative {
    /// This body of an answer of `host`, which may be silent for at most `patience`.
    pub(crate) fn new(body: Body, patience: Duration, host: &str) -> Self {
        Talkative { body, host: host.into(), patience, silence: None, waiting: false }
    }
}

impl HttpBody for Talkative {
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
