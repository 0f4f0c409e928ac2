//! [`Feed`]: the bytes of a stream that have come in and have not been read yet, cut into JSON values.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};

use super::extent::Extent;
use crate::json::{JsonError, JsonFault, path_at};
use crate::stream::StreamError;

/// A buffer larger than this is not kept for the next value that comes in pieces.
const KEPT_BUFFER: usize = 1 << 20;

/// Chunks in, values out. What is handed out is a slice of a chunk unless it was cut between chunks; then it is a copy
/// of its exact size, as it may be kept for long.
pub(super) struct Feed {
    /// What is left of the current chunk.
    chunk: Bytes,
    /// The chunks after it.
    waiting: VecDeque<Bytes>,
    /// How many bytes have been read before `chunk`.
    offset: u64,
    /// The value that is being read.
    open: Option<Extent>,
    /// What has come of it in earlier chunks.
    held: Vec<u8>,
    /// Whether the stream makes no sense any more.
    given_up: bool,
    /// How large a value may be.
    pub(super) limit: usize,
}

impl fmt::Debug for Feed {
    /// Sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("offset", &self.offset)
            .field("held", &self.held.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// A value and where in the stream it starts.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) offset: u64,
}

impl Feed {
    pub(super) fn new(limit: usize) -> Self {
        Feed {
            chunk: Bytes::new(),
            waiting: VecDeque::new(),
            offset: 0,
            open: None,
            held: Vec::new(),
            given_up: false,
            limit,
        }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.given_up {
            return;
        }
        if self.chunk.is_empty() && self.waiting.is_empty() {
            self.chunk = chunk;
        } else if !chunk.is_empty() {
            self.waiting.push_back(chunk);
        }
    }

    /// Lets go of everything that came, and of everything that will come.
    pub(super) fn give_up(&mut self) {
        self.given_up = true;
        self.chunk = Bytes::new();
        self.waiting = VecDeque::new();
        self.open = None;
        self.held = Vec::new();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether a value has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The next byte that is not space, left in place. Not to be asked in the middle of a value.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let space = self.chunk.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
            self.advance(space.unwrap_or(self.chunk.len()));
            match self.chunk.first() {
                Some(byte) => return Some(*byte),
                None => self.chunk = self.waiting.pop_front()?,
            }
        }
    }

    /// Passes the byte that was peeked.
    pub(super) fn bump(&mut self) {
        self.advance(self.chunk.len().min(1));
    }

    /// The next value, if all of it is there. `path` says what it is, for errors.
    pub(super) fn value(&mut self, path: impl Fn() -> String) -> Result<Option<Piece>, StreamError> {
        if self.open.is_none() {
            if self.peek().is_none() {
                return Ok(None);
            }
            self.open = Some(Extent::default());
        }
        while !self.chunk.is_empty() {
            let end = match self.open.get_or_insert_default().advance(&self.chunk) {
                Ok(end) => end,
                Err((at, fault)) => return Err(self.malformed_at(at, &path(), fault)),
            };
            let length = end.unwrap_or(self.chunk.len());
            let offset = self.offset - self.held.len() as u64;
            if self.held.len() + length > self.limit {
                return Err(StreamError::TooLarge { offset, path: path(), limit: self.limit });
            }
            self.offset += length as u64;
            let part = self.chunk.split_to(length);
            if end.is_some() {
                self.open = None;
                let bytes = if self.held.is_empty() { part } else { self.join(&part) };
                return Ok(Some(Piece { bytes, offset }));
            }
            self.held.extend_from_slice(&part);
            self.chunk = self.waiting.pop_front().unwrap_or_default();
        }
        Ok(None)
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
    pub(super) fn unexpected(&self, path: &str, expected: &'static str) -> StreamError {
        let fault = match self.chunk.first() {
            Some(&found) => JsonFault::Unexpected { found, expected },
            None => JsonFault::UnexpectedEnd,
        };
        StreamError::Malformed { source: JsonError::new(self.offset, path.into(), fault) }
    }

    fn advance(&mut self, length: usize) {
        self.chunk.advance(length);
        self.offset += length as u64;
    }

    #[cold]
    fn malformed_at(&self, at: usize, path: &str, fault: JsonFault) -> StreamError {
        let seen = [&self.held, self.chunk.get(..at).unwrap_or_default()].concat();
        let source = JsonError::new(seen.len() as u64, path_at(&seen, seen.len()), fault);
        StreamError::Malformed { source: source.within(self.offset - self.held.len() as u64, path) }
    }
}
