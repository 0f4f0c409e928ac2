//! [`Index`]: where in some bytes eight given ones may be found.

use super::delta::word_at;

/// Where words of eight bytes stand. Of several that are alike, or that it cannot tell apart, it knows the last one.
#[derive(Default)]
pub(super) struct Index {
    /// Positions and one; 0 where there is none.
    places: Vec<u32>,
    /// How far a hash is shifted to be a place.
    shift: u32,
}

impl Index {
    /// Forgets everything, and makes room for about so many words.
    pub(super) fn reset(&mut self, words: usize) {
        let bits = words.next_power_of_two().trailing_zeros().clamp(6, 18);
        self.places.clear();
        self.places.resize(1 << bits, 0);
        self.shift = u64::BITS - bits;
    }

    /// Adds every so many words of these bytes, from a position on.
    pub(super) fn add(&mut self, bytes: &[u8], from: usize, step: usize) {
        let mut at = from;
        while let Some(word) = word_at(bytes, at) {
            let place = self.place(word);
            // What lies behind 4 GiB is not found, which is as well.
            if let (Some(place), Ok(position)) = (self.places.get_mut(place), u32::try_from(at + 1)) {
                *place = position;
            }
            at += step;
        }
    }

    /// Where this word stands in the bytes that were added.
    pub(super) fn find(&self, bytes: &[u8], word: u64) -> Option<usize> {
        let position = self.places.get(self.place(word))?.checked_sub(1)? as usize;
        (word_at(bytes, position) == Some(word)).then_some(position)
    }

    fn place(&self, word: u64) -> usize {
        // The golden ratio spreads what is alike; the highest bits depend on all others.
        (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }
}
