//! Names of events.

use std::fmt::Write as _;

/// Returns the name of an event: the object's name and the time in hexadecimal nanoseconds. If that is not a valid
/// object name, a UUID made of `random`.
pub(crate) fn event_name(object: &str, nanoseconds: i128, random: u128) -> String {
    let name = format!("{object}.{nanoseconds:x}");
    if is_subdomain(&name) { name } else { uuid(random) }
}

/// Returns whether the text is a valid object name.
fn is_subdomain(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(alphanumeric)
                && bytes.last().is_some_and(alphanumeric)
                && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        })
}

/// Returns a version 4 UUID.
fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (part, range) in [0..8, 8..12, 12..16, 16..20, 20..32].into_iter().enumerate() {
        let dash = if part == 0 { "" } else { "-" };
        let _ = write!(text, "{dash}{}", &digits[range]);
    }
    text
}

/// Truncates the text to this many bytes at a character boundary.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests;
