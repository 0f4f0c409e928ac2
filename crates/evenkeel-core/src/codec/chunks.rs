//! [`ChunkQueue`]: the bytes of a stream that were received and not yet read.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};

/// Received chunks, in order.
#[derive(Default)]
pub(super) struct ChunkQueue {
    /// The unread part of the current chunk.
    chunk: Bytes,
    /// The chunks after it, none of them empty.
    waiting: VecDeque<Bytes>,
    /// The offset of `chunk` in the stream.
    offset: u64,
    /// Set by a fatal error: later chunks are dropped.
    closed: bool,
}

/// A part of a stream and its offset.
pub(super) struct StreamSlice {
    pub(super) bytes: Bytes,
    pub(super) offset: u64,
}

impl fmt::Debug for ChunkQueue {
    /// Prints sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkQueue").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl ChunkQueue {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.closed {
            return;
        }
        if self.chunk.is_empty() && self.waiting.is_empty() {
            self.chunk = chunk;
        } else if !chunk.is_empty() {
            self.waiting.push_back(chunk);
        }
    }

    /// Drops all chunks, and all chunks that are pushed later.
    pub(super) fn close(&mut self) {
        *self = ChunkQueue { offset: self.offset, closed: true, ..ChunkQueue::default() };
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the number of bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next contiguous bytes; empty if there are none.
    #[inline]
    pub(super) fn peek(&mut self) -> &[u8] {
        if self.chunk.is_empty()
            && let Some(next) = self.waiting.pop_front()
        {
            self.chunk = next;
        }
        &self.chunk
    }

    /// Skips bytes of [`peek`](Self::peek).
    #[inline]
    pub(super) fn skip(&mut self, length: usize) {
        let length = length.min(self.chunk.len());
        self.chunk.advance(length);
        self.offset += length as u64;
    }

    /// Takes bytes of [`peek`](Self::peek).
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Bytes {
        let length = length.min(self.chunk.len());
        self.offset += length as u64;
        self.chunk.split_to(length)
    }
}
