//! [`JsonBuffer`]: received bytes, split into JSON values.

use std::fmt;

use bytes::Bytes;

use super::value_boundary::ValueBoundary;
use crate::codec::chunks::{ChunkQueue, StreamSlice};
use crate::error::StreamError;
use crate::json::{JsonError, JsonErrorKind, path_at};

/// Partial buffers larger than this are not kept for the next value.
const MAX_KEPT_BUFFER: usize = 1 << 20;
/// The smallest look-ahead of [`JsonBuffer::read_in_place`].
const MIN_LOOKAHEAD: usize = 4 << 10;

/// Splits chunks into values. A value that arrived in one chunk is a slice of it. A value that spans chunks is a copy of its
/// exact size, as callers may keep it for long.
pub(super) struct JsonBuffer {
    chunks: ChunkQueue,
    /// The boundary of the value in progress.
    boundary: Option<ValueBoundary>,
    /// The part of that value from earlier chunks.
    partial: Vec<u8>,
    /// The limit on the size of a value.
    pub(super) limit: usize,
    /// How far [`read_in_place`](Self::read_in_place) looks: twice the size of the last value.
    lookahead: usize,
}

impl fmt::Debug for JsonBuffer {
    /// Prints sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonBuffer")
            .field("offset", &self.offset())
            .field("partial", &self.partial.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl JsonBuffer {
    pub(super) fn new(limit: usize) -> Self {
        let (chunks, partial) = (ChunkQueue::default(), Vec::new());
        JsonBuffer { chunks, boundary: None, partial, limit, lookahead: MIN_LOOKAHEAD }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// Drops all bytes, and all bytes that are pushed later.
    pub(super) fn close(&mut self) {
        self.chunks.close();
        self.boundary = None;
        self.partial = Vec::new();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.chunks.is_closed()
    }

    /// Returns the number of bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.chunks.offset()
    }

    /// Returns the value in progress, as far as it has arrived.
    #[cfg(planted)]
    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Returns whether a value has started and not ended.
    pub(super) fn in_value(&self) -> bool {
        self.boundary.is_some()
    }

    /// Skips whitespace and returns the next byte without consuming it. Must not be called in the middle of a value.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let ahead = self.chunks.peek();
            if ahead.is_empty() {
                return None;
            }
            let space = ahead.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
            let length = space.unwrap_or(ahead.len());
            let byte = ahead.get(length).copied();
            self.chunks.skip(length);
            if byte.is_some() {
                return byte;
            }
        }
    }

    /// Consumes the byte that [`peek`](Self::peek) returned.
    pub(super) fn bump(&mut self) {
        self.chunks.skip(1);
    }

    /// Runs a reader over the next value in place. The reader returns its result and the length of the value.
    ///
    /// Most values lie in one chunk, and the reader finds their end itself: this saves a separate search for the end. If the
    /// reader fails, nothing is consumed and the caller falls back to [`next_value`](Self::next_value).
    pub(super) fn read_in_place<T>(
        &mut self,
        read: impl FnOnce(&str) -> Option<(T, usize)>,
    ) -> Option<(T, StreamSlice)> {
        if self.in_value() || self.peek().is_none() {
            return None;
        }
        let lookahead = self.lookahead;
        let ahead = self.chunks.peek();
        let ahead = ahead.get(..lookahead).unwrap_or(ahead);
        let text = match std::str::from_utf8(ahead) {
            Ok(text) => text,
            // The look-ahead may end in the middle of a character.
            Err(error) => std::str::from_utf8(ahead.get(..error.valid_up_to())?).ok()?,
        };
        let (value, length) = read(text).filter(|(_, length)| *length <= self.limit)?;
        self.lookahead = MIN_LOOKAHEAD.max(2 * length);
        let offset = self.offset();
        Some((value, StreamSlice { bytes: self.chunks.take(length), offset }))
    }

    /// Returns the next value, or `None` until it is complete. `path` names the value in errors.
    pub(super) fn next_value(&mut self, path: impl Fn() -> String) -> Result<Option<StreamSlice>, StreamError> {
        if self.boundary.is_none() {
            if self.peek().is_none() {
                return Ok(None);
            }
            self.boundary = Some(ValueBoundary::default());
        }
        loop {
            let ahead = self.chunks.peek();
            if ahead.is_empty() {
                return Ok(None);
            }
            let length = ahead.len();
            let end = match self.boundary.get_or_insert_default().advance(ahead) {
                Ok(end) => end,
                Err((at, kind)) => return Err(self.malformed_at(at, &path(), kind)),
            };
            let length = end.unwrap_or(length);
            let offset = self.offset() - self.partial.len() as u64;
            if self.partial.len() + length > self.limit {
                return Err(StreamError::TooLarge { offset, path: path(), limit: self.limit });
            }
            let part = self.chunks.take(length);
            if end.is_some() {
                self.boundary = None;
                let bytes = if self.partial.is_empty() { part } else { self.join(&part) };
                self.lookahead = MIN_LOOKAHEAD.max(2 * bytes.len());
                return Ok(Some(StreamSlice { bytes, offset }));
            }
            self.partial.extend_from_slice(&part);
        }
    }

    /// Returns the partial value and its last part as one.
    fn join(&mut self, part: &[u8]) -> Bytes {
        let whole = [&self.partial, part].concat().into();
        if self.partial.capacity() > MAX_KEPT_BUFFER {
            self.partial = Vec::new();
        }
        self.partial.clear();
        whole
    }

    /// Returns an error at the byte that [`peek`](Self::peek) returned.
    pub(super) fn unexpected(&mut self, path: &str, expected: &'static str) -> StreamError {
        let kind = match self.chunks.peek().first() {
            Some(&found) => JsonErrorKind::Unexpected { found, expected },
            None => JsonErrorKind::UnexpectedEnd,
        };
        JsonError::new(self.offset(), path.into(), kind).into()
    }

    #[cold]
    fn malformed_at(&mut self, at: usize, path: &str, kind: JsonErrorKind) -> StreamError {
        let start = self.offset() - self.partial.len() as u64;
        let seen = [&self.partial, self.chunks.peek().get(..at).unwrap_or_default()].concat();
        JsonError::new(seen.len() as u64, path_at(&seen, seen.len()), kind).within(start, path).into()
    }
}
