//! Delta encoding of one text against another.
//!
//! Objects of one kind are similar, and those of one owner differ in little but names, addresses and times. A text is encoded as copies
//! from a *base*, with literals between them. Four properties of API objects make this short and fast:
//!
//! - Differences mostly have the same length (a uid, a hash, a time). After a difference the encoder first compares the base at the
//!   same distance, which costs a few instructions per eight bytes and no bytes in the encoding.
//! - The header contains the identity of an object already. This *context* precedes the text: a name or a uid in the text is a
//!   copy from there.
//! - Lists of similar elements, such as endpoints, repeat within a text. A copy may start in the part of the text that precedes it.
//! - New contents are often the text form of random bytes: uids, hexadecimal digits, base64. They are encoded as bytes.
//!
//! A general compressor with a dictionary finds the same repetitions, but has to search for them, and spends as much time again on
//! entropy coding with little gain.
//!
//! # Format
//!
//! Length of the text, length of the literals (both varints), a checksum of the text (4 bytes), the literals, then instructions
//! until the text is complete. The two highest bits of an instruction are the source of a copy. Three bits are the number of preceding
//! literals and three bits the number of copied bytes, both continued by a varint if all bits are set. The source [`SPECIAL`] has
//! instructions without a copy instead.

mod alignment;
mod literals;
mod reader;
mod writer;

use std::sync::OnceLock;

use rapidhash::v3::rapidhash_v3;

pub(super) use self::reader::{read, read_unchecked};
pub(super) use self::writer::DeltaWriter;
use super::word_index::WordIndex;

/// The shortest copy worth an instruction.
const SHORTEST: usize = 4;
/// The value of three bits that a varint continues.
const MORE: usize = 7;
/// The factor by which a text may be longer than base and encoding together. It bounds what damaged memory can allocate.
pub(super) const MAX_EXPANSION: usize = 1024;

/// From the base or the preceding text, at the current position.
const ONWARD: u8 = 0;
/// From the base, elsewhere: a signed distance follows.
const ELSEWHERE: u8 = 1;
/// From the context or the preceding text: a position follows. The current position advances as if the copy were from there.
const AGAIN: u8 = 2;
/// No copy: the other six bits are one of the following.
const SPECIAL: u8 = 3;

/// Up to here: the number of bytes that are written as hexadecimal digits.
const HEX_MORE: u8 = 47;
/// Literals; their number follows.
const PLAIN: u8 = 48;
/// The current position moves into the preceding text; the new position follows.
const JUMP: u8 = 49;
/// Base64 without padding; the number of groups of three bytes follows.
const BASE64: u8 = 50;
/// A uid: sixteen bytes. The number above this one is the number of leading digits that are left out.
const UUID: u8 = 56;
/// The length of a uid.
const UUID_LENGTH: usize = 36;
/// The positions of the dashes of a uid.
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];

/// The base of an encoding.
#[derive(Clone, Copy)]
pub(super) struct DeltaBase<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) index: BaseIndex<'a>,
}

/// The index of a base.
#[derive(Clone, Copy)]
pub(super) enum BaseIndex<'a> {
    /// A dictionary: every word is indexed.
    Dense(&'a WordIndex),
    /// A similar object: some words are indexed, on first use. Most siblings need no index.
    Sparse(&'a OnceLock<WordIndex>),
}

/// The index of a sibling has an entry for every so many bytes.
const SPARSE: usize = 8;

impl DeltaBase<'_> {
    fn is_dense(&self) -> bool {
        matches!(self.index, BaseIndex::Dense(_))
    }

    /// Returns the position of a word.
    fn find(&self, word: u64) -> Option<usize> {
        let index = match self.index {
            BaseIndex::Dense(index) => index,
            BaseIndex::Sparse(index) => index.get_or_init(|| {
                let mut index = WordIndex::default();
                index.reset(self.bytes.len() / SPARSE);
                index.add(self.bytes, 0..self.bytes.len(), SPARSE);
                index
            }),
        };
        index.find(self.bytes, word)
    }
}

fn checksum(text: &[u8]) -> u32 {
    let hash = rapidhash_v3(text);
    (hash ^ hash >> 32) as u32
}

/// Returns eight bytes as one integer.
#[inline]
pub(super) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn put(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63).cast_unsigned() as usize);
}

#[inline]
fn get(from: &mut &[u8]) -> Option<usize> {
    match from {
        [byte, rest @ ..] if *byte < 0x80 => {
            let value = usize::from(*byte);
            *from = rest;
            Some(value)
        }
        _ => get_long(from),
    }
}

fn get_long(from: &mut &[u8]) -> Option<usize> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= usize::from(byte & 0x7F).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

fn get_signed(from: &mut &[u8]) -> Option<isize> {
    let value = get(from)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

#[cfg(test)]
mod tests;
