//! [`LiteralRun`]: literals that are the text form of bytes.

use std::ops::Range;

use super::{UUID_DASHES, UUID_LENGTH};

/// The shortest run of hexadecimal digits that is encoded as bytes, and the shortest part of a uid.
const SHORTEST_HEX: usize = 16;
/// The shortest run of base64 that is encoded as bytes.
const SHORTEST_BASE64: usize = 32;
/// The number of digits before the first dash of a uid.
const FIRST_DIGITS: usize = UUID_DASHES[0];
/// The value of a byte that is no digit.
const NONE: u8 = 0xFF;

const BASE64_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_VALUES: [u8; 256] = values(BASE64_DIGITS);
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const HEX_VALUES: [u8; 256] = values(HEX_DIGITS);

/// Each byte as two hexadecimal digits.
const HEX_PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [HEX_DIGITS[byte >> 4], HEX_DIGITS[byte & 0xF]];
        byte += 1;
    }
    pairs
};

const fn values(digits: &[u8]) -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// A part of a text that is encoded as bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LiteralRun {
    /// Pairs of lower-case hexadecimal digits.
    Hex(Range<usize>),
    /// A uid without its first digits.
    Uuid { range: Range<usize>, skipped: usize },
    /// Groups of four digits.
    Base64(Range<usize>),
}

impl LiteralRun {
    /// Returns the first such part of a range of a text. A uid may start before the range if that is at `first`, and end after
    /// it, but not after `most`.
    pub(super) fn next(text: &[u8], first: usize, range: Range<usize>, most: usize) -> Option<Self> {
        let mut at = range.start;
        while range.end.saturating_sub(at) >= SHORTEST_HEX {
            let rest = text.get(at..range.end)?;
            // Every run from here on would contain this byte: most bytes are not looked at.
            let last = *rest.get(SHORTEST_HEX - 1)?;
            if BASE64_VALUES[usize::from(last)] == NONE && last != b'-' {
                at += SHORTEST_HEX;
                continue;
            }
            let hex = digits(rest, &HEX_VALUES);
            if hex >= SHORTEST_HEX {
                return Some(LiteralRun::Hex(at..at + hex / 2 * 2));
            }
            if hex > 0 && rest.get(hex) == Some(&b'-') {
                let (start, skipped) = (at + hex.saturating_sub(FIRST_DIGITS), FIRST_DIGITS.saturating_sub(hex));
                let end = start + UUID_LENGTH - skipped;
                if (skipped == 0 || at == first) && end <= most && is_uuid(text.get(start..end)?, skipped) {
                    return Some(LiteralRun::Uuid { range: start..end, skipped });
                }
            }
            let base64 = digits(rest, &BASE64_VALUES);
            if base64 >= SHORTEST_BASE64 {
                return Some(LiteralRun::Base64(at..at + base64 / 4 * 4));
            }
            at += base64 + 1;
        }
        None
    }

    /// Returns the part of the text.
    pub(super) fn range(&self) -> &Range<usize> {
        match self {
            LiteralRun::Hex(range) | LiteralRun::Base64(range) | LiteralRun::Uuid { range, .. } => range,
        }
    }

    /// Appends the bytes of this part of a text.
    pub(super) fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        let digits = text.get(self.range().clone()).unwrap_or_default();
        match self {
            LiteralRun::Hex(_) => {
                out.extend(digits.as_chunks::<2>().0.iter().map(|[high, low]| hex(*high) << 4 | hex(*low)));
            }
            LiteralRun::Uuid { skipped, .. } => {
                let mut bytes = [0; 16];
                let digits = digits.iter().filter(|digit| **digit != b'-');
                for (number, digit) in (*skipped..32).zip(digits) {
                    bytes[number / 2] |= hex(*digit) << (4 * (1 - number % 2));
                }
                out.extend_from_slice(&bytes);
            }
            LiteralRun::Base64(_) => {
                for group in digits.as_chunks::<4>().0 {
                    let bits =
                        group.iter().fold(0, |bits, digit| bits << 6 | u32::from(BASE64_VALUES[usize::from(*digit)]));
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                }
            }
        }
    }
}

/// Returns the number of leading digits.
#[inline]
fn digits(text: &[u8], values: &[u8; 256]) -> usize {
    text.iter().take_while(|byte| values[usize::from(**byte)] != NONE).count()
}

fn hex(digit: u8) -> u8 {
    HEX_VALUES[usize::from(digit)]
}

/// Returns whether this is a uid without its first digits.
fn is_uuid(text: &[u8], skipped: usize) -> bool {
    text.iter().zip(skipped..).all(|(byte, position)| match UUID_DASHES.contains(&position) {
        true => *byte == b'-',
        false => hex(*byte) != NONE,
    })
}

/// Appends bytes as hexadecimal digits.
pub(super) fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for bytes in bytes.chunks(32) {
        let mut digits = [[0; 2]; 32];
        for (pair, byte) in digits.iter_mut().zip(bytes) {
            *pair = HEX_PAIRS[usize::from(*byte)];
        }
        out.extend_from_slice(digits.as_flattened().get(..2 * bytes.len()).unwrap_or_default());
    }
}

/// Appends a uid without its first digits.
pub(super) fn put_uuid(out: &mut Vec<u8>, bytes: &[u8; 16], skipped: usize) {
    let mut text = [b'-'; UUID_LENGTH];
    let mut at = 0;
    for byte in bytes {
        at += usize::from(UUID_DASHES.contains(&at));
        text[at..at + 2].copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        at += 2;
    }
    out.extend_from_slice(text.get(skipped..).unwrap_or_default());
}

/// Appends bytes as base64.
pub(super) fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for [one, two, three] in bytes.as_chunks::<3>().0 {
        let bits = u32::from_be_bytes([0, *one, *two, *three]);
        out.extend([18, 12, 6, 0].map(|shift| BASE64_DIGITS[(bits >> shift & 0x3F) as usize]));
    }
}
