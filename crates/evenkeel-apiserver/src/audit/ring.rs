//! [`Ring`]: the last audit events, bounded in number and in bytes.

use std::collections::VecDeque;

use bytes::Bytes;

/// The number of events kept.
const CAPACITY: usize = 4096;
/// The bytes of events kept.
const MAX_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    lines: VecDeque<Bytes>,
    bytes: usize,
}

impl Ring {
    pub(crate) fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > CAPACITY || self.bytes > MAX_BYTES {
            match self.lines.pop_front() {
                Some(oldest) => self.bytes -= oldest.len(),
                None => break,
            }
        }
    }

    /// Returns the events, oldest first.
    pub(crate) fn lines(&self) -> Vec<Bytes> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_in_events_and_in_bytes() {
        let mut ring = Ring::default();
        for number in 0..CAPACITY + 10 {
            ring.push(Bytes::from(number.to_string()));
        }
        assert_eq!((ring.lines().len(), ring.lines()[0].as_ref()), (CAPACITY, &b"10"[..]));
        let large = Bytes::from(vec![0; MAX_BYTES / 2]);
        for _ in 0..3 {
            ring.push(large.clone());
        }
        assert_eq!((ring.lines().len(), ring.bytes), (2, MAX_BYTES));
    }
}
