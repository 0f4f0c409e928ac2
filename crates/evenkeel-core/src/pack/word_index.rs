//! [`WordIndex`]: finds words of eight bytes in a byte string.

use std::ops::Range;

use super::delta_encoding::word_at;
use crate::decoded_cache::GOLDEN_RATIO;

/// The positions of words of eight bytes. Of equal words, and of words with equal hashes, it keeps the last one.
#[derive(Default)]
pub(super) struct WordIndex {
    /// Positions plus one by hash; 0 for none.
    positions: Vec<u32>,
    /// The shift of a hash to a slot.
    shift: u32,
}

impl WordIndex {
    /// Clears the index, and sizes it for about this many words.
    pub(super) fn reset(&mut self, words: usize) {
        let bits = words.next_power_of_two().trailing_zeros().clamp(6, 18);
        self.positions.clear();
        self.positions.resize(1 << bits, 0);
        self.shift = u64::BITS - bits;
    }

    /// Adds the words that start at every `step`th byte of a range.
    pub(super) fn add(&mut self, bytes: &[u8], range: Range<usize>, step: usize) {
        let mut at = range.start;
        while let Some(word) = word_at(bytes, at).filter(|_| at < range.end) {
            let slot = self.slot(word);
            // Positions beyond 4 GiB are not indexed.
            if let (Some(entry), Ok(position)) = (self.positions.get_mut(slot), u32::try_from(at + 1)) {
                *entry = position;
            }
            at += step;
        }
    }

    /// Returns the position of a word in the indexed bytes.
    pub(super) fn find(&self, bytes: &[u8], word: u64) -> Option<usize> {
        let position = self.positions.get(self.slot(word))?.checked_sub(1)? as usize;
        (word_at(bytes, position) == Some(word)).then_some(position)
    }

    fn slot(&self, word: u64) -> usize {
        // The highest bits of the product depend on all others.
        (word.wrapping_mul(GOLDEN_RATIO) >> self.shift) as usize
    }
}
