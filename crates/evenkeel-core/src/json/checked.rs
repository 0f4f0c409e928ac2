//! Finds one value in JSON that was checked before: it validates nothing, so it skips faster than
//! [`Scanner`](super::Scanner).

use std::borrow::Cow;

use super::{JsonValue, PathSegment, Scanner, plain_length};

/// Returns the value at a path of a text that was checked to be well-formed; `None` if there is none, or it is null.
///
/// In a text that is not well-formed it may find a wrong value, and never panics.
pub(crate) fn look_up_checked<'a, 'p>(
    text: &'a [u8],
    path: impl Iterator<Item = PathSegment<'p>>,
) -> Option<JsonValue<'a>> {
    let mut cursor = CheckedCursor { text, at: 0 };
    for segment in path {
        let found = match (cursor.next_byte()?, segment.member(), segment.index()) {
            (b'[', _, Some(index)) => cursor.find_element(index)?,
            (b'{', Some(name), _) => cursor.find_member(name)?,
            _ => false,
        };
        if !found {
            return None;
        }
    }
    cursor.next_byte()?;
    let start = cursor.at;
    cursor.skip()?;
    let value = std::str::from_utf8(text.get(start..cursor.at)?).ok()?;
    (value != "null").then_some(JsonValue(Cow::Borrowed(value)))
}

/// A position in the text. Methods return `None` at its end.
struct CheckedCursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl CheckedCursor<'_> {
    /// Skips whitespace, and returns the next byte without consuming it.
    #[inline]
    fn next_byte(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Advances to the value of a member of the object at the position.
    fn find_member(&mut self, name: &str) -> Option<bool> {
        self.at += 1;
        while self.next_byte()? == b'"' {
            let is_found = self.is_member(name)?;
            // The colon.
            self.next_byte()?;
            self.at += 1;
            if is_found {
                return Some(true);
            }
            self.skip()?;
            if self.next_byte()? == b',' {
                self.at += 1;
            }
        }
        Some(false)
    }

    /// Skips the name of a member, and returns whether it is this one.
    fn is_member(&mut self, name: &str) -> Option<bool> {
        let start = self.at;
        let escaped = self.skip_string()?;
        let quoted = self.text.get(start..self.at)?;
        if !escaped {
            return Some(quoted.get(1..quoted.len() - 1)? == name.as_bytes());
        }
        let unescaped = Scanner::new(quoted).and_then(|mut scanner| scanner.string()).ok()?;
        Some(unescaped == name)
    }

    /// Advances to an element of the array at the position.
    fn find_element(&mut self, index: usize) -> Option<bool> {
        self.at += 1;
        for _ in 0..index {
            if self.next_byte()? == b']' {
                return Some(false);
            }
            self.skip()?;
            if self.next_byte()? == b',' {
                self.at += 1;
            }
        }
        Some(self.next_byte()? != b']')
    }

    /// Skips the value at the position.
    fn skip(&mut self) -> Option<()> {
        match self.next_byte()? {
            b'"' => self.skip_string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                let rest = self.text.get(self.at..)?;
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                Some(())
            }
        }
    }

    /// Skips the object or array at the position.
    fn skip_nested(&mut self) -> Option<()> {
        let mut strings = StringMask::default();
        let mut depth = 0_usize;
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let block = Block::of(rest);
            let outside = !strings.inside(&block);
            let closing = block.where_either(b']', b'}') & outside;
            let mut brackets = block.where_either(b'[', b'{') & outside | closing;
            while brackets != 0 {
                let lowest = brackets & brackets.wrapping_neg();
                brackets ^= lowest;
                depth = (depth + 1).saturating_sub(2 * usize::from(closing & lowest != 0));
                if depth == 0 {
                    self.at += lowest.trailing_zeros() as usize + 1;
                    return Some(());
                }
            }
            self.at += Block::LENGTH;
        }
    }

    /// Skips the string at the position, and returns whether it contains escapes.
    #[inline]
    fn skip_string(&mut self) -> Option<bool> {
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at += plain_length(self.text.get(self.at..)?);
            match *self.text.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
    }
}

/// Bytes that are compared at once. A bit of a mask stands for a byte, the lowest for the first.
struct Block([Lane; 4]);

impl Block {
    const LENGTH: usize = 64;

    /// Returns the first bytes of a text, followed by spaces if it is shorter.
    fn of(text: &[u8]) -> Self {
        let mut padded = [b' '; Self::LENGTH];
        let bytes: &[u8; Self::LENGTH] = text.first_chunk().unwrap_or_else(|| {
            padded.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            &padded
        });
        let (lanes, _) = bytes.as_chunks();
        Block(std::array::from_fn(|lane| Lane::of(&lanes[lane])))
    }

    fn mask(&self, mask: impl Fn(&Lane) -> u16) -> u64 {
        let [a, b, c, d] = self.0.each_ref().map(|lane| u64::from(mask(lane)));
        a | b << 16 | c << 32 | d << 48
    }

    fn where_byte(&self, byte: u8) -> u64 {
        self.mask(|lane| lane.where_byte(byte, 0))
    }

    /// Returns where either byte is. They must differ in the bit 0x20 only, as brackets and braces do.
    fn where_either(&self, without: u8, with: u8) -> u64 {
        debug_assert_eq!(without | 0x20, with);
        self.mask(|lane| lane.where_byte(with, 0x20))
    }
}

/// Bytes that one instruction compares. `safe_arch` alone, because the portable crates for vectors take longer to build than
/// this one.
#[cfg(target_feature = "sse2")]
struct Lane(safe_arch::m128i);

#[cfg(target_feature = "sse2")]
impl Lane {
    #[inline]
    fn of(bytes: &[u8; 16]) -> Self {
        Lane(safe_arch::load_unaligned_m128i(bytes))
    }

    /// Returns which bytes are this one after `set` has been set in them.
    #[inline]
    fn where_byte(&self, byte: u8, set: u8) -> u16 {
        let splat = |byte: u8| safe_arch::set_splat_i8_m128i(byte.cast_signed());
        let equal = safe_arch::cmp_eq_mask_i8_m128i(safe_arch::bitor_m128i(self.0, splat(set)), splat(byte));
        // One bit for each byte: the upper half is zero.
        safe_arch::move_mask_i8_m128i(equal) as u16
    }
}

#[cfg(not(target_feature = "sse2"))]
type Lane = PortableLane;

/// A lane for other processors. The compiler compares the bytes with vectors; a multiplication collects the results.
#[cfg(any(test, not(target_feature = "sse2")))]
struct PortableLane([u8; 16]);

#[cfg(any(test, not(target_feature = "sse2")))]
impl PortableLane {
    #[inline]
    fn of(bytes: &[u8; 16]) -> Self {
        PortableLane(*bytes)
    }

    #[inline]
    fn where_byte(&self, byte: u8, set: u8) -> u16 {
        let equal = self.0.map(|found| u8::from(found | set == byte));
        let (halves, _) = equal.as_chunks::<8>();
        // Moves the lowest bit of each byte to the highest byte.
        let bits = |half: [u8; 8]| u64::from_le_bytes(half).wrapping_mul(0x0102_0408_1020_4080).to_be_bytes()[0];
        u16::from_le_bytes([bits(halves[0]), bits(halves[1])])
    }
}

/// Finds the strings of consecutive blocks.
#[derive(Default)]
struct StringMask {
    /// All bits if the last block ended inside a string.
    inside: u64,
    /// 1 if the last block ended with a backslash that escapes the next byte.
    escaped: u64,
}

impl StringMask {
    /// Returns which bytes of the next block are part of a string, its opening quote included.
    fn inside(&mut self, block: &Block) -> u64 {
        let quotes = block.where_byte(b'"') & !self.escaped(block.where_byte(b'\\'));
        // Each bit becomes the parity of itself and all lower ones.
        let parity = [1, 2, 4, 8, 16, 32].iter().fold(quotes, |parity, shift| parity ^ parity << shift);
        let inside = parity ^ self.inside;
        self.inside = if inside >> 63 == 1 { u64::MAX } else { 0 };
        inside
    }

    /// Returns which bytes of a block are escaped by a backslash before them.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = std::mem::take(&mut self.escaped);
        let mut left = backslashes & !escaped;
        while left != 0 {
            let lowest = left & left.wrapping_neg();
            escaped |= lowest << 1;
            self.escaped = lowest >> 63;
            left &= !(lowest | lowest << 1);
        }
        escaped
    }
}

#[cfg(test)]
mod tests;
