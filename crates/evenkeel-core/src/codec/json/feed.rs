//! [`Feed`]: the bytes of a stream that have come in and have not been read yet, cut into JSON values.

use std::fmt;

use bytes::Bytes;

use super::extent::Extent;
use crate::codec::chunks::{Chunks, Piece};
use crate::json::{JsonError, JsonFault, path_at};
use crate::stream::StreamError;

/// A buffer larger than this is not kept for the next value that comes in pieces.
const KEPT_BUFFER: usize = 1 << 20;

/// Chunks in, values out. What is handed out is a slice of a chunk unless it was cut between chunks; then it is a copy
/// of its exact size, as it may be kept for long.
pub(super) struct Feed {
    chunks: Chunks,
    /// The value that is being read.
    open: Option<Extent>,
    /// What has come of it in earlier chunks.
    held: Vec<u8>,
    /// How large a value may be.
    pub(super) limit: usize,
}

impl fmt::Debug for Feed {
    /// Sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("offset", &self.offset())
            .field("held", &self.held.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Feed {
    pub(super) fn new(limit: usize) -> Self {
        Feed { chunks: Chunks::default(), open: None, held: Vec::new(), limit }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// Lets go of everything that came, and of everything that will come.
    pub(super) fn give_up(&mut self) {
        self.chunks.give_up();
        self.open = None;
        self.held = Vec::new();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.chunks.is_given_up()
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.chunks.offset()
    }

    /// Whether a value has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The next byte that is not space, left in place. Not to be asked in the middle of a value.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let ahead = self.chunks.ahead();
            if ahead.is_empty() {
                return None;
            }
            let space = ahead.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
            let length = space.unwrap_or(ahead.len());
            let byte = ahead.get(length).copied();
            self.chunks.pass(length);
            if byte.is_some() {
                return byte;
            }
        }
    }

    /// Passes the byte that was peeked.
    pub(super) fn bump(&mut self) {
        self.chunks.pass(1);
    }

    /// The next value, if all of it is there. `path` says what it is, for errors.
    pub(super) fn value(&mut self, path: impl Fn() -> String) -> Result<Option<Piece>, StreamError> {
        if self.open.is_none() {
            if self.peek().is_none() {
                return Ok(None);
            }
            self.open = Some(Extent::default());
        }
        loop {
            let ahead = self.chunks.ahead();
            if ahead.is_empty() {
                return Ok(None);
            }
            let length = ahead.len();
            let end = match self.open.get_or_insert_default().advance(ahead) {
                Ok(end) => end,
                Err((at, fault)) => return Err(self.malformed_at(at, &path(), fault)),
            };
            let length = end.unwrap_or(length);
            let offset = self.offset() - self.held.len() as u64;
            if self.held.len() + length > self.limit {
                return Err(StreamError::TooLarge { offset, path: path(), limit: self.limit });
            }
            let part = self.chunks.take(length);
            if end.is_some() {
                self.open = None;
                let bytes = if self.held.is_empty() { part } else { self.join(&part) };
                return Ok(Some(Piece { bytes, offset }));
            }
            self.held.extend_from_slice(&part);
        }
    }

    /// What was held and the last part of it.
    fn join(&mut self, part: &[u8]) -> Bytes {
        let whole = [&self.held, part].concat().into();
        if self.held.capacity() > KEPT_BUFFER {
            self.held = Vec::new();
        }
        self.held.clear();
        whole
    }

    /// An error at the byte that was peeked.
    pub(super) fn unexpected(&mut self, path: &str, expected: &'static str) -> StreamError {
        let fault = match self.chunks.ahead().first() {
            Some(&found) => JsonFault::Unexpected { found, expected },
            None => JsonFault::UnexpectedEnd,
        };
        JsonError::new(self.offset(), path.into(), fault).into()
    }

    #[cold]
    fn malformed_at(&mut self, at: usize, path: &str, fault: JsonFault) -> StreamError {
        let start = self.offset() - self.held.len() as u64;
        let seen = [&self.held, self.chunks.ahead().get(..at).unwrap_or_default()].concat();
        JsonError::new(seen.len() as u64, path_at(&seen, seen.len()), fault).within(start, path).into()
    }
}
