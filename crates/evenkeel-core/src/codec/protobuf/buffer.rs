//! [`ProtobufBuffer`]: received bytes, read by varint and length.

use std::fmt;

use bytes::Bytes;

use crate::codec::chunks::{ChunkQueue, StreamSlice};
use crate::error::{StreamError, WireError};

/// The largest slice for which memory is reserved as soon as its length is known. A peer can claim any length: beyond this
/// size memory grows with the bytes that arrive.
const MAX_RESERVED: usize = 1 << 20;

/// Splits chunks into slices. A slice that arrived in one chunk shares its memory. A slice that spans chunks is a copy of its
/// exact size, as callers may keep it for long.
pub(super) struct ProtobufBuffer {
    chunks: ChunkQueue,
    /// The part of the slice in progress from earlier chunks.
    partial: Vec<u8>,
    /// The part of the varint in progress from earlier chunks, and its number of bits.
    varint: (u64, u32),
    /// The limit on the size of a slice.
    pub(super) limit: usize,
}

impl fmt::Debug for ProtobufBuffer {
    /// Prints sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtobufBuffer")
            .field("offset", &self.offset())
            .field("partial", &self.partial.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl ProtobufBuffer {
    pub(super) fn new(limit: usize) -> Self {
        ProtobufBuffer { chunks: ChunkQueue::default(), partial: Vec::new(), varint: (0, 0), limit }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// Drops all bytes, and all bytes that are pushed later.
    pub(super) fn close(&mut self) {
        self.chunks.close();
        self.partial = Vec::new();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.chunks.is_closed()
    }

    /// Returns the number of bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.chunks.offset()
    }

    /// Returns whether every received byte was read, and nothing in part.
    pub(super) fn is_empty(&mut self) -> bool {
        self.partial.is_empty() && !self.in_varint() && self.chunks.peek().is_empty()
    }

    /// Returns whether a varint has started and not ended.
    pub(super) fn in_varint(&self) -> bool {
        self.varint.1 > 0
    }

    /// Returns the next varint, or `None` until it is complete.
    pub(super) fn next_varint(&mut self) -> Result<Option<u64>, WireError> {
        loop {
            let Some(byte) = self.chunks.peek().first().copied() else { return Ok(None) };
            self.chunks.skip(1);
            let (value, bits) = self.varint;
            if bits > 63 {
                return Err(WireError::LongNumber);
            }
            let value = value | u64::from(byte & 0x7f) << bits;
            if byte < 0x80 {
                self.varint = (0, 0);
                return Ok(Some(value));
            }
            self.varint = (value, bits + 7);
        }
    }

    /// Checks a length against the limit before anything is buffered. `path` names the slice in the error.
    pub(super) fn check(&self, length: u64, start: u64, path: impl Fn() -> String) -> Result<usize, StreamError> {
        let fits = usize::try_from(length).ok().filter(|length| *length <= self.limit);
        fits.ok_or_else(|| StreamError::TooLarge { offset: start, path: path(), limit: self.limit })
    }

    /// Returns the next `length` bytes, or `None` until they are complete. The caller repeats the same length until then.
    pub(super) fn next_slice(&mut self, length: usize) -> Option<StreamSlice> {
        let offset = self.offset() - self.partial.len() as u64;
        loop {
            let missing = length - self.partial.len();
            let ahead = self.chunks.peek();
            if ahead.len() >= missing {
                let part = self.chunks.take(missing);
                let bytes = if self.partial.is_empty() { part } else { self.join(&part) };
                return Some(StreamSlice { bytes, offset });
            }
            if ahead.is_empty() {
                return None;
            }
            if self.partial.is_empty() {
                self.partial.reserve_exact(length.min(MAX_RESERVED));
            }
            self.partial.extend_from_slice(ahead);
            let length = ahead.len();
            self.chunks.skip(length);
        }
    }

    /// Skips at most `length` bytes and returns how many it skipped.
    pub(super) fn skip(&mut self, length: u64) -> u64 {
        let mut skipped = 0;
        while skipped < length {
            let ahead = self.chunks.peek().len();
            if ahead == 0 {
                break;
            }
            let part = usize::try_from(length - skipped).unwrap_or(usize::MAX).min(ahead);
            self.chunks.skip(part);
            skipped += part as u64;
        }
        skipped
    }

    /// Returns the partial slice and its last part as one.
    fn join(&mut self, part: &[u8]) -> Bytes {
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(part);
        if whole.len() == whole.capacity() { whole.into() } else { Bytes::copy_from_slice(&whole) }
    }
}
