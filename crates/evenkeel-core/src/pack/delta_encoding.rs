//! Delta encoding of one text against another.
//!
//! Objects of one kind are similar, and those of one owner differ in little but names, addresses and times. A text is encoded as copies
//! from a *base*, with literals between them. Three properties of API objects make this short and fast:
//!
//! - Differences mostly have the same length (a uid, a hash, a time). After a literal the encoder first tries the base at the same
//!   distance, which costs one comparison and no bytes.
//! - The header contains the identity of an object already. This *context* precedes the literals: a name or a uid in the text is a
//!   copy from there.
//! - New contents are often hexadecimal text of random bytes. It is encoded as half as many bytes.
//!
//! A general compressor with a dictionary finds the same repetitions, but has to search for them, and spends as much time again on
//! entropy coding with little gain.
//!
//! # Format
//!
//! Length of the text, length of the literals (both varints), a checksum of the text (4 bytes), the literals, then copy instructions
//! until the text is complete. An instruction is a byte: the two highest bits are the source of the copy, then three bits the number of
//! preceding literals and three bits the number of copied bytes, both continued by a varint if all bits are set.

use rapidhash::v3::rapidhash_v3;

use super::word_index::WordIndex;

/// The shortest copy worth an instruction.
const SHORTEST: usize = 4;
/// The shortest run of hexadecimal digits that is encoded as bytes.
const SHORTEST_HEX: usize = 16;
/// The value of three bits that a varint continues.
const MORE: usize = 7;
/// The value of six bits that a varint continues.
const MORE_HEX: usize = 63;

/// From the base, at the current position.
const ONWARD: u8 = 0;
/// From the base, elsewhere: a signed distance follows.
const ELSEWHERE: u8 = 1;
/// From the literals: a position follows.
const AGAIN: u8 = 2;
/// Hexadecimal digits from the literals, and no copy: the other six bits, or a varint, are the number of bytes.
const HEX: u8 = 3;

/// The base of an encoding.
#[derive(Clone, Copy)]
pub(super) struct DeltaBase<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) index: &'a WordIndex,
}

/// The source of a copy.
#[derive(Clone, Copy)]
enum CopySource {
    DeltaBase(usize),
    Literals(usize),
}

/// A possible copy.
struct CopyMatch {
    /// Its start in the text.
    start: usize,
    source: CopySource,
    length: usize,
}

/// Encodes texts. It has no state but reusable buffers.
#[derive(Default)]
pub(super) struct DeltaWriter {
    /// The context, then the literals.
    literals: Vec<u8>,
    steps: Vec<u8>,
    /// The index of the literals.
    again: WordIndex,
}

impl DeltaWriter {
    /// Appends the encoding of a text to `out`.
    pub(super) fn write(&mut self, base: DeltaBase<'_>, context: &[u8], text: &[u8], out: &mut Vec<u8>) {
        self.literals.clear();
        self.steps.clear();
        self.again.reset(1024);
        self.literals.extend_from_slice(context);
        self.again.add(&self.literals, 0, 2);
        let (mut at, mut cursor) = (0, 0);
        while at < text.len() {
            let found = self.find(base, text, at, cursor);
            let end = found.as_ref().map_or(text.len(), |found| found.start);
            let literals = self.take(text.get(at..end).unwrap_or_default());
            cursor += end - at;
            let Some(CopyMatch { source, length, .. }) = found else {
                // The rest is literals; the copy of the last instruction is empty.
                self.step(ONWARD, literals, SHORTEST);
                break;
            };
            match source {
                CopySource::DeltaBase(position) if position == cursor => {
                    self.step(ONWARD, literals, length);
                    cursor = position + length;
                }
                CopySource::DeltaBase(position) => {
                    self.step(ELSEWHERE, literals, length);
                    put_signed(&mut self.steps, position as i64 - cursor as i64);
                    cursor = position + length;
                }
                CopySource::Literals(position) => {
                    self.step(AGAIN, literals, length);
                    put(&mut self.steps, position);
                    cursor += length;
                }
            }
            at = end + length;
        }
        let own = self.literals.get(context.len()..).unwrap_or_default();
        put(out, text.len());
        put(out, own.len());
        out.extend_from_slice(&checksum(text).to_le_bytes());
        out.extend_from_slice(own);
        out.extend_from_slice(&self.steps);
    }

    /// Finds the next copy at `at` or after it. `cursor` is the current position in the base.
    fn find(&self, base: DeltaBase<'_>, text: &[u8], at: usize, cursor: usize) -> Option<CopyMatch> {
        let rest = text.get(at..)?;
        let onward = base.bytes.get(cursor..).unwrap_or_default();
        // Most differences are a few bytes long, and equal bytes follow.
        const NEAR: usize = 8;
        for skipped in 0..NEAR {
            let (Some(mine), Some(theirs)) = (word_at(rest, skipped), word_at(onward, skipped)) else { break };
            // Four bytes suffice here.
            if (mine ^ theirs) as u32 == 0 {
                return Some(self.matched(base, text, at, at + skipped, CopySource::DeltaBase(cursor + skipped)));
            }
        }
        let mut skipped = 0;
        while let Some(word) = word_at(rest, skipped) {
            let place = at + skipped;
            if word_at(onward, skipped) == Some(word) {
                return Some(self.matched(base, text, at, place, CopySource::DeltaBase(cursor + skipped)));
            }
            if let Some(position) = base.index.find(base.bytes, word) {
                return Some(self.matched(base, text, at, place, CopySource::DeltaBase(position)));
            }
            if let Some(position) = self.again.find(&self.literals, word) {
                return Some(self.matched(base, text, at, place, CopySource::Literals(position)));
            }
            // After a long search without a match the steps grow. A match extends backwards over skipped bytes.
            skipped += 1 + skipped / 32;
        }
        None
    }

    /// Extends a match in both directions, but not before `at`.
    fn matched(&self, base: DeltaBase<'_>, text: &[u8], at: usize, place: usize, source: CopySource) -> CopyMatch {
        let (from, position) = match source {
            CopySource::DeltaBase(position) => (base.bytes, position),
            CopySource::Literals(position) => (self.literals.as_slice(), position),
        };
        let behind = text.get(at..place).unwrap_or_default().iter().rev();
        let before = behind.zip(from.get(..position).unwrap_or_default().iter().rev());
        let back = before.take_while(|(mine, theirs)| mine == theirs).count();
        let ahead = common(text.get(place..).unwrap_or_default(), from.get(position..).unwrap_or_default());
        let source = match source {
            CopySource::DeltaBase(position) => CopySource::DeltaBase(position - back),
            CopySource::Literals(position) => CopySource::Literals(position - back),
        };
        CopyMatch { start: place - back, source, length: back + ahead }
    }

    /// Adds a run of literals. Returns how many of them the next instruction has to emit.
    fn take(&mut self, run: &[u8]) -> usize {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut plain = run;
        if run.len() >= SHORTEST_HEX && run.iter().all(is_hex) {
            let (pairs, odd) = run.as_chunks::<2>();
            self.literals.extend(pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)));
            self.steps.push(HEX << 6 | pairs.len().min(MORE_HEX) as u8);
            if pairs.len() >= MORE_HEX {
                put(&mut self.steps, pairs.len() - MORE_HEX);
            }
            plain = odd;
        }
        let start = self.literals.len();
        self.literals.extend_from_slice(plain);
        self.again.add(&self.literals, start, 2);
        plain.len()
    }

    fn step(&mut self, source: u8, literals: usize, length: usize) {
        let length = length - SHORTEST.min(length);
        self.steps.push(source << 6 | (literals.min(MORE) as u8) << 3 | length.min(MORE) as u8);
        if literals >= MORE {
            put(&mut self.steps, literals - MORE);
        }
        if length >= MORE {
            put(&mut self.steps, length - MORE);
        }
    }
}

/// Decodes a text, and returns `None` if it does not match its checksum.
pub(super) fn read(base: &[u8], context: [&[u8]; 2], written: &[u8]) -> Option<Vec<u8>> {
    let text = read_unchecked(base, context, written)?;
    let mut from = written;
    let (_, _) = (get(&mut from)?, get(&mut from)?);
    (checksum(&text).to_le_bytes() == *from.first_chunk::<4>()?).then_some(text)
}

/// Decodes a text that is the base of another one, which has its own checksum.
pub(super) fn read_unchecked(base: &[u8], context: [&[u8]; 2], mut written: &[u8]) -> Option<Vec<u8>> {
    let from = &mut written;
    let length = get(from)?;
    let own = get(from)?;
    let (_checksum, rest) = from.split_first_chunk::<4>()?;
    let (own, mut steps) = rest.split_at_checked(own)?;
    let mut few = [0; 768];
    let mut many = Vec::new();
    let literals = join([context[0], context[1], own], &mut few, &mut many);
    // A damaged length must not cause a large allocation.
    let mut text = Vec::with_capacity(length.min(2 * (base.len() + literals.len()) + 64));
    let (mut taken, mut cursor) = (context[0].len() + context[1].len(), 0_usize);
    while text.len() < length {
        let (step, rest) = steps.split_first()?;
        steps = rest;
        if step >> 6 == HEX {
            let mut pairs = usize::from(step & 0x3F);
            if pairs == MORE_HEX {
                pairs = pairs.checked_add(get(&mut steps)?)?;
            }
            let bytes = literals.get(taken..taken.checked_add(pairs)?)?;
            for bytes in bytes.chunks(32) {
                let mut letters = [[0; 2]; 32];
                for (pair, byte) in letters.iter_mut().zip(bytes) {
                    *pair = PAIRS[usize::from(*byte)];
                }
                text.extend_from_slice(letters.as_flattened().get(..2 * bytes.len())?);
            }
            (taken, cursor) = (taken + pairs, cursor.checked_add(2 * pairs)?);
            continue;
        }
        let (mut run, mut copied) = (usize::from(step >> 3 & 7), usize::from(step & 7));
        if run == MORE {
            run = run.checked_add(get(&mut steps)?)?;
        }
        if copied == MORE {
            copied = copied.checked_add(get(&mut steps)?)?;
        }
        text.extend_from_slice(literals.get(taken..taken.checked_add(run)?)?);
        (taken, cursor) = (taken + run, cursor.checked_add(run)?);
        // The last instruction of a text that ends with literals copies nothing.
        let copied = copied.checked_add(SHORTEST)?.min(length.checked_sub(text.len())?);
        let source = match step >> 6 {
            ONWARD => base.get(cursor..),
            ELSEWHERE => {
                cursor = cursor.checked_add_signed(get_signed(&mut steps)?)?;
                base.get(cursor..)
            }
            _ => literals.get(get(&mut steps)?..),
        };
        if copied > 0 {
            text.extend_from_slice(source?.get(..copied)?);
        }
        cursor = cursor.checked_add(copied)?;
    }
    (text.len() == length).then_some(text)
}

/// Concatenates the pieces, on the stack if they fit.
fn join<'a>(pieces: [&[u8]; 3], few: &'a mut [u8], many: &'a mut Vec<u8>) -> &'a [u8] {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    let Some(mut rest) = few.get_mut(..length) else {
        *many = pieces.concat();
        return many;
    };
    for piece in pieces {
        let (target, after) = rest.split_at_mut(piece.len());
        target.copy_from_slice(piece);
        rest = after;
    }
    &few[..length]
}

fn checksum(text: &[u8]) -> u32 {
    let hash = rapidhash_v3(text);
    (hash ^ hash >> 32) as u32
}

/// Returns eight bytes as one integer.
pub(super) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns the length of the common prefix.
fn common(one: &[u8], other: &[u8]) -> usize {
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

fn digit(letter: u8) -> u8 {
    if letter.is_ascii_digit() { letter - b'0' } else { letter - b'a' + 10 }
}

/// Each byte as two hexadecimal digits.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 0xF]];
        byte += 1;
    }
    pairs
};

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

fn get(from: &mut &[u8]) -> Option<usize> {
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
