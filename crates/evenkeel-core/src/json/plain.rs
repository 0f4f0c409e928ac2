//! The inner loop of JSON strings: the distance to the next special byte.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns the number of bytes before the first quote, backslash or control character.
///
/// Strings of Kubernetes objects are mostly too short for a vectorised search to pay off; testing eight bytes in one word does.
#[inline]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + rest.iter().position(special).unwrap_or(rest.len())
}

/// Sets the high bit of each special byte. Bytes above the lowest special one may be marked wrongly, as the subtractions borrow
/// from them; the caller uses the lowest only.
#[inline]
pub(super) fn special_bytes(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH_BITS
}

#[cfg(test)]
mod tests;
