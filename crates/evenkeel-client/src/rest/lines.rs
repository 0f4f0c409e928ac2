//! [`Lines`]: bytes as they come, line by line.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_core::{FusedStream, Stream};

use super::stream::ByteStream;
use crate::error::Error;

/// The lines of an answer, such as a log that is followed. Made by [`ByteStream::lines`].
///
/// Lines come without their `\n` or `\r\n`. They need not be UTF-8: they are what a program has written. The last one comes
/// even if nothing ends it, also before an error. A line may share its memory with others that came with it.
#[derive(Debug)]
pub struct Lines {
    bytes: ByteStream,
    /// What has come of a line that has not ended.
    held: Vec<u8>,
    limit: usize,
    /// What is to be said behind the last line.
    fault: Option<Error>,
    is_over: bool,
}

impl Lines {
    pub(super) fn new(bytes: ByteStream, limit: usize) -> Self {
        Lines { bytes, held: Vec::new(), limit: limit.max(1), fault: None, is_over: false }
    }

    /// The next line; `None` at the end. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next line, or the piece of one that is as long as a line may be, if the chunk at hand has the end of it.
    fn cut(&mut self) -> Option<Bytes> {
        let room = self.limit - self.held.len();
        let chunk = self.bytes.chunk();
        let end = chunk.iter().take(room + 1).position(|byte| *byte == b'\n');
        let length = end.unwrap_or(chunk.len().min(room));
        let is_full = end.is_none() && chunk.len() > room;
        let part = chunk.split_to(length);
        if end.is_some() {
            chunk.advance(1);
        }
        let mut line = if self.held.is_empty() && (end.is_some() || is_full) {
            part
        } else {
            self.held.extend_from_slice(&part);
            if end.is_none() && !is_full {
                return None;
            }
            std::mem::take(&mut self.held).into()
        };
        if end.is_some() && line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }
}

impl Stream for Lines {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.is_over {
            match ready!(this.bytes.poll_chunk(context)) {
                Ok(()) if !this.bytes.chunk().is_empty() => {
                    if let Some(line) = this.cut() {
                        return Poll::Ready(Some(Ok(line)));
                    }
                }
                end => {
                    this.is_over = true;
                    this.fault = end.err();
                    if !this.held.is_empty() {
                        return Poll::Ready(Some(Ok(std::mem::take(&mut this.held).into())));
                    }
                }
            }
        }
        Poll::Ready(this.fault.take().map(Err))
    }
}

impl FusedStream for Lines {
    fn is_terminated(&self) -> bool {
        self.is_over && self.fault.is_none()
    }
}
