//! [`InboundBuffer`]: the unread data of one stream.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Smaller pieces are copied: a slice keeps the whole message alive that it is a part of.
const COPY_BELOW: usize = 16 * 1024;

/// The unread data of one stream. Large pieces are not copied.
#[derive(Default)]
pub(super) struct InboundBuffer {
    pieces: VecDeque<Bytes>,
    /// Small pieces, after all others.
    tail: BytesMut,
    length: usize,
}

impl InboundBuffer {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, data: Bytes) {
        self.length += data.len();
        if data.len() < COPY_BELOW {
            self.tail.extend_from_slice(&data);
            return;
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.pieces.push_back(data);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let piece = match self.pieces.pop_front() {
            Some(piece) => piece,
            // The capacity of the buffer must not outlive its data: many streams may be idle.
            None if !self.tail.is_empty() => std::mem::take(&mut self.tail).freeze(),
            None => return None,
        };
        self.length -= piece.len();
        Some(piece)
    }
}
