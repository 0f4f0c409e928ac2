//! The inner loop of the scanner: skips values without whitespace, as API servers send them.

use super::plain::special_bytes;

/// Why a value cannot be skipped here. The scanner reads it again, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCompact {
    /// The text ends in the value.
    Cut,
    /// The value has whitespace, a fraction or an error, or is deeply nested.
    Unusual,
}

/// The limit of the nesting, one bit each.
const MAX_COMPACT_DEPTH: u32 = u64::BITS;

type Result<T> = std::result::Result<T, NotCompact>;

/// Returns the end of the value at `at`. It is well-formed, and nested at most `max_depth` deep.
pub(super) fn skip_compact(bytes: &[u8], mut at: usize, max_depth: u32) -> Result<usize> {
    let max_depth = max_depth.min(MAX_COMPACT_DEPTH);
    let mut depth = 0;
    // A bit for each open bracket, the innermost lowest: 1 for an object, 0 for an array.
    let mut objects: u64 = 0;
    loop {
        match byte_at(bytes, at)? {
            b'"' => at = string_end(bytes, at + 1)?,
            open @ (b'{' | b'[') => {
                if depth == max_depth {
                    return Err(NotCompact::Unusual);
                }
                let is_object = open == b'{';
                let next = byte_at(bytes, at + 1)?;
                if next == close_of(is_object) {
                    at += 2;
                } else {
                    depth += 1;
                    objects = objects << 1 | u64::from(is_object);
                    at = if is_object { member_end(bytes, at + 1)? } else { at + 1 };
                    continue;
                }
            }
            b'0'..=b'9' => at = integer_end(bytes, at)?,
            b't' => at = word_end(bytes, at, b"true")?,
            b'f' => at = word_end(bytes, at, b"false")?,
            b'n' => at = word_end(bytes, at, b"null")?,
            _ => return Err(NotCompact::Unusual),
        }
        loop {
            if depth == 0 {
                return Ok(at);
            }
            let is_object = objects & 1 == 1;
            let byte = byte_at(bytes, at)?;
            at += 1;
            if byte == b',' {
                if is_object {
                    at = member_end(bytes, at)?;
                }
                break;
            }
            if byte != close_of(is_object) {
                return Err(NotCompact::Unusual);
            }
            depth -= 1;
            objects >>= 1;
        }
    }
}

#[inline(always)]
fn byte_at(bytes: &[u8], at: usize) -> Result<u8> {
    bytes.get(at).copied().ok_or(NotCompact::Cut)
}

#[inline(always)]
fn close_of(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// Returns the position after the name of a member and its colon.
#[inline(always)]
fn member_end(bytes: &[u8], at: usize) -> Result<usize> {
    if byte_at(bytes, at)? != b'"' {
        return Err(NotCompact::Unusual);
    }
    let end = string_end(bytes, at + 1)?;
    if byte_at(bytes, end)? == b':' { Ok(end + 1) } else { Err(NotCompact::Unusual) }
}

/// Returns the position after the closing quote of a string. `at` is after the opening one.
#[inline(always)]
fn string_end(bytes: &[u8], mut at: usize) -> Result<usize> {
    loop {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return short_string_end(bytes, at) };
        let special = special_bytes(u64::from_le_bytes(*word));
        if special == 0 {
            at += size_of::<u64>();
            continue;
        }
        at += special.trailing_zeros() as usize / 8;
        match byte_at(bytes, at)? {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape_end(bytes, at + 1)?,
            _ => return Err(NotCompact::Unusual),
        }
    }
}

/// The same at the end of the text.
#[cold]
fn short_string_end(bytes: &[u8], mut at: usize) -> Result<usize> {
    loop {
        match byte_at(bytes, at)? {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape_end(bytes, at + 1)?,
            0..0x20 => return Err(NotCompact::Unusual),
            _ => at += 1,
        }
    }
}

/// Returns the position after an escape sequence. `at` is after the backslash.
fn escape_end(bytes: &[u8], at: usize) -> Result<usize> {
    match byte_at(bytes, at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 1),
        b'u' => {
            let digits = bytes.get(at + 1..at + 5).ok_or(NotCompact::Cut)?;
            if digits.iter().all(u8::is_ascii_hexdigit) { Ok(at + 5) } else { Err(NotCompact::Unusual) }
        }
        _ => Err(NotCompact::Unusual),
    }
}

fn integer_end(bytes: &[u8], start: usize) -> Result<usize> {
    let mut at = start;
    loop {
        match byte_at(bytes, at)? {
            b'0'..=b'9' => at += 1,
            b'.' | b'e' | b'E' => return Err(NotCompact::Unusual),
            _ => break,
        }
    }
    let leading_zero = at > start + 1 && bytes.get(start) == Some(&b'0');
    if leading_zero { Err(NotCompact::Unusual) } else { Ok(at) }
}

fn word_end(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize> {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.starts_with(word) { Ok(at + word.len()) } else { Err(NotCompact::Unusual) }
}
