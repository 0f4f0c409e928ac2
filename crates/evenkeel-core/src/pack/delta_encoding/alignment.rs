//! Compares two texts: how long they are equal, and where they are equal again after a difference.

use super::word_at;

/// How far after a difference the base is compared at the same distance.
const RESUME_WITHIN: usize = 96;
/// Where in the base, after a difference, a word is taken that is searched in the text.
const ANCHORS: [usize; 5] = [8, 16, 32, 56, 88];
/// By how many bytes a value may be longer or shorter than that of the base to be found by an anchor.
const MAX_SHIFT: usize = 16;

/// Returns the number of bytes after which the two texts are equal for at least eight bytes, or for four after a short difference.
#[inline]
pub(super) fn resume(one: &[u8], other: &[u8]) -> Option<usize> {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0).take(RESUME_WITHIN / 8);
    let mut differences = words.map(|(mine, theirs)| u64::from_le_bytes(*mine) ^ u64::from_le_bytes(*theirs));
    let (first, second) = (differences.next()?, differences.next().unwrap_or(!0));
    // A bit for each of the first sixteen bytes: whether they are equal.
    let equal = equal_bytes(first) | equal_bytes(second) << 8;
    let pairs = equal & equal >> 1;
    let fours = pairs & pairs >> 2;
    let near = fours & 0xFF | fours & fours >> 4;
    if near != 0 {
        return Some(near.trailing_zeros() as usize);
    }
    let mut before = second;
    for (index, difference) in differences.enumerate() {
        if difference == 0 {
            // The equal bytes at the end of the word before belong to the run.
            return Some(8 * (index + 2) - before.leading_zeros() as usize / 8);
        }
        before = difference;
    }
    None
}

/// Returns positions in both texts, not far away, from which on they are equal: after a value of another length.
pub(super) fn realign(text: &[u8], base: &[u8]) -> Option<(usize, usize)> {
    ANCHORS.into_iter().find_map(|ahead| {
        const WORD: usize = size_of::<u64>();
        let word = word_at(base, ahead)?;
        let first = ahead.saturating_sub(MAX_SHIFT);
        let near = text.get(first..)?;
        let near = near.get(..2 * MAX_SHIFT + WORD).unwrap_or(near);
        let skipped = near.windows(WORD).position(|found| word_at(found, 0) == Some(word))?;
        Some((first + skipped, ahead))
    })
}

/// Returns a bit for each byte of a word, the first one lowest: whether it is zero.
#[inline]
fn equal_bytes(difference: u64) -> u64 {
    const LOW_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let equal = !((difference & LOW_BITS).wrapping_add(LOW_BITS) | difference | LOW_BITS);
    // Gathers the highest bits of the bytes.
    (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Returns the length of the common prefix.
pub(super) fn common(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let (one_blocks, _) = one.as_chunks::<BLOCK>();
    let (other_blocks, _) = other.as_chunks::<BLOCK>();
    let mut at = BLOCK * one_blocks.iter().zip(other_blocks).take_while(|(one, other)| one == other).count();
    while let (Some(mine), Some(theirs)) = (word_at(one, at), word_at(other, at)) {
        let difference = mine ^ theirs;
        if difference != 0 {
            return at + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = one.get(at..).unwrap_or_default().iter().zip(other.get(at..).unwrap_or_default());
    at + rest.take_while(|(mine, theirs)| mine == theirs).count()
}
