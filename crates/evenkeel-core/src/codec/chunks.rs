//! [`Chunks`]: the bytes of a stream that have come in and have not been read yet.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};

/// What has come in, in the order in which it came.
#[derive(Default)]
pub(super) struct Chunks {
    /// What is left of the current chunk.
    chunk: Bytes,
    /// The chunks after it, none of them empty.
    waiting: VecDeque<Bytes>,
    /// How many bytes have been read before `chunk`.
    offset: u64,
    /// Whether the stream makes no sense any more.
    given_up: bool,
}

/// A part of a stream and where in it it starts.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) offset: u64,
}

impl fmt::Debug for Chunks {
    /// Sizes only: the bytes may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Chunks {
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
        *self = Chunks { offset: self.offset, given_up: true, ..Chunks::default() };
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes that lie together; none if there are none.
    #[inline]
    pub(super) fn ahead(&mut self) -> &[u8] {
        if self.chunk.is_empty()
            && let Some(next) = self.waiting.pop_front()
        {
            self.chunk = next;
        }
        &self.chunk
    }

    /// Passes bytes that are [ahead](Self::ahead).
    #[inline]
    pub(super) fn pass(&mut self, length: usize) {
        let length = length.min(self.chunk.len());
        self.chunk.advance(length);
        self.offset += length as u64;
    }

    /// Takes bytes that are [ahead](Self::ahead).
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Bytes {
        let length = length.min(self.chunk.len());
        self.offset += length as u64;
        self.chunk.split_to(length)
    }
}
