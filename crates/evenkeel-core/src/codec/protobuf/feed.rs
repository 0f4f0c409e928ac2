//! [`Feed`]: a stream of protobuf that is coming in, read by numbers and lengths.

use std::fmt;

use bytes::Bytes;

use crate::codec::chunks::{Chunks, Piece};
use crate::protobuf::WireFault;
use crate::stream::StreamError;

/// Up to this size, memory is claimed for all of a piece as soon as its length is known. A length is only what somebody says:
/// beyond this size memory is claimed as the bytes come.
const BELIEVED: usize = 1 << 20;

/// Chunks in, pieces out. What is handed out is a slice of a chunk unless it was cut between chunks; then it is a copy
/// of its exact size, as it may be kept for long.
pub(super) struct Feed {
    chunks: Chunks,
    /// What has come of a piece in earlier chunks.
    held: Vec<u8>,
    /// What has come of a number in earlier chunks, and how many bits that are.
    number: (u64, u32),
    /// How large a piece may be.
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
        Feed { chunks: Chunks::default(), held: Vec::new(), number: (0, 0), limit }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }

    /// Lets go of everything that came, and of everything that will come.
    pub(super) fn give_up(&mut self) {
        self.chunks.give_up();
        self.held = Vec::new();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.chunks.is_given_up()
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.chunks.offset()
    }

    /// Whether everything that came has been read, and nothing has been read in part.
    pub(super) fn is_at_rest(&mut self) -> bool {
        self.held.is_empty() && !self.is_in_number() && self.chunks.ahead().is_empty()
    }

    /// Whether a number has begun and not ended.
    pub(super) fn is_in_number(&self) -> bool {
        self.number.1 > 0
    }

    /// The next number, if all of it is there.
    pub(super) fn varint(&mut self) -> Result<Option<u64>, WireFault> {
        loop {
            let Some(byte) = self.chunks.ahead().first().copied() else { return Ok(None) };
            self.chunks.pass(1);
            let (value, bits) = self.number;
            if bits > 63 {
                return Err(WireFault::LongNumber);
            }
            let value = value | u64::from(byte & 0x7f) << bits;
            if byte < 0x80 {
                self.number = (0, 0);
                return Ok(Some(value));
            }
            self.number = (value, bits + 7);
        }
    }

    /// Refuses what is larger than the limit, before any of it is held. `path` says what it is.
    pub(super) fn check(&self, length: u64, start: u64, path: impl Fn() -> String) -> Result<usize, StreamError> {
        let fits = usize::try_from(length).ok().filter(|length| *length <= self.limit);
        fits.ok_or_else(|| StreamError::TooLarge { offset: start, path: path(), limit: self.limit })
    }

    /// The next `length` bytes, if all of them are there. To be asked for the same ones until they are.
    pub(super) fn piece(&mut self, length: usize) -> Option<Piece> {
        let offset = self.offset() - self.held.len() as u64;
        loop {
            let missing = length - self.held.len();
            let ahead = self.chunks.ahead();
            if ahead.len() >= missing {
                let part = self.chunks.take(missing);
                let bytes = if self.held.is_empty() { part } else { self.join(&part) };
                return Some(Piece { bytes, offset });
            }
            if ahead.is_empty() {
                return None;
            }
            if self.held.is_empty() {
                self.held.reserve_exact(length.min(BELIEVED));
            }
            self.held.extend_from_slice(ahead);
            let length = ahead.len();
            self.chunks.pass(length);
        }
    }

    /// Passes at most `length` bytes, and says how many it were.
    pub(super) fn pass(&mut self, length: u64) -> u64 {
        let mut passed = 0;
        while passed < length {
            let ahead = self.chunks.ahead().len();
            if ahead == 0 {
                break;
            }
            let part = usize::try_from(length - passed).unwrap_or(usize::MAX).min(ahead);
            self.chunks.pass(part);
            passed += part as u64;
        }
        passed
    }

    /// What was held and the last part of it.
    fn join(&mut self, part: &[u8]) -> Bytes {
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(part);
        if whole.len() == whole.capacity() { whole.into() } else { Bytes::copy_from_slice(&whole) }
    }
}
